/** The known name that a misspelt one was probably meant to be. Promise: none rather than a far one. Rules: 01 "Errors" (a remedy). */

/** Letters to change, add, drop or swap with the next one, at least: the restricted Damerau-Levenshtein distance. */
const distance = (a: string, b: string): number => {
  let before: number[] = []
  let above = Array.from({ length: b.length + 1 }, (_, n) => n)
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i]
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1
      row[j] = Math.min(above[j]! + 1, row[j - 1]! + 1, above[j - 1]! + same)
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (isSwapped) row[j] = Math.min(row[j]!, before[j - 2]! + 1)
    }
    before = above
    above = row
  }
  return above[b.length]!
}

/** Longer names are no slip of the hand. */
const longest = 64

/** Undefined where more than a third of the letters differ; capitals count as small ones, and a name that goes on where the other ends is near. */
const nearest = (name: string, known: Iterable<string>): string | undefined => {
  if (name.length > longest) return undefined
  const wanted = name.toLowerCase()
  let found: { readonly name: string; readonly far: number } | undefined
  for (const one of known) {
    const other = one.toLowerCase()
    const goesOn = wanted.length > 3 && (other.startsWith(wanted) || wanted.startsWith(other))
    const far = goesOn ? 1 : distance(wanted, other)
    const most = Math.max(1, Math.floor(Math.max(wanted.length, other.length) / 3))
    if (far <= most && far < (found?.far ?? Number.POSITIVE_INFINITY)) found = { name: one, far }
  }
  return found?.name
}

/** The remedy for a name that nobody knows: the near one, else `otherwise` and all of them. */
export const didYouMean = (name: string, known: Iterable<string>, otherwise: string): string => {
  const near = nearest(name, known)
  return near === undefined ? `${otherwise} one of ${[...known].join(", ")}.` : `Did you mean \`${near}\`?`
}
