/**
 * Glob patterns over tree paths: `*`, `?`, `[a-z]`, `[!a-z]`, `{a,b}` within a name, `**` across names.
 * Promise: matches whole paths, byte by byte; a name that starts with a dot needs no special care; nothing but `**` and a slash itself
 * matches a slash; a match costs the path's length times the pattern's, whatever they are: it runs on the host's thread. Rules: W4.
 *
 * No RegExp: one backtracks, and `*a*a*a*a*b` took it minutes. All states that a path can be in are followed at once instead
 * (Thompson, "Regular Expression Search Algorithm", CACM 1968).
 */
import { fromInput, type TreePath } from "../../base/PathBytes.ts"

/** A state of the automaton: takes a byte that fits and goes on, or goes on to several without one. */
type State =
  | { readonly fits: (byte: number) => boolean; readonly next: number }
  | { readonly fits: undefined; readonly next: readonly number[] }

const slash = 0x2f
const isName = (byte: number): boolean => byte !== slash

/** The bytes of `a-z_`, behind the `!`. Throws where a range goes backwards. */
const classOf = (body: string): ((byte: number) => boolean) => {
  const inverted = body[0] === "!" || body[0] === "^"
  const set = new Set<number>()
  for (let i = inverted ? 1 : 0; i < body.length; i += 1) {
    const from = body.charCodeAt(i)
    const isRange = body[i + 1] === "-" && i + 2 < body.length
    const to = isRange ? body.charCodeAt(i + 2) : from
    if (to < from) throw new Error("A range of a pattern ends before it begins")
    for (let byte = from; byte <= to; byte += 1) set.add(byte)
    if (isRange) i += 2
  }
  return (byte) => isName(byte) && set.has(byte) !== inverted
}

/** A test for tree paths. A pattern without a slash matches names at the root only, as the shell does. Throws for no pattern. */
export const compileGlob = (pattern: string): ((path: TreePath) => boolean) => {
  const glob = fromInput(pattern)
  const states: State[] = []
  const byte = (fits: (byte: number) => boolean): void => {
    states.push({ fits, next: states.length + 1 })
  }
  /** Any number of bytes that fit. */
  const many = (fits: (byte: number) => boolean): void => {
    const at = states.length
    states.push({ fits: undefined, next: [at + 1, at + 2] }, { fits, next: at })
  }
  /** Open braces: where each branches, and the ends of the alternatives before the last. */
  const braces: { readonly branches: number[]; readonly ends: number[][] }[] = []
  /** A place that is left for elsewhere, known later. */
  const jump = (to: number[]): void => {
    states.push({ fits: undefined, next: to })
  }
  const close = (): void => {
    for (const end of braces.pop()!.ends) end.push(states.length)
  }
  for (let i = 0; i < glob.length; i += 1) {
    const c = glob[i]!
    const classEnd = c === "[" ? glob.indexOf("]", i + (glob[i + 1] === "!" || glob[i + 1] === "^" ? 3 : 2)) : -1
    if (c === "*" && glob[i + 1] === "*") {
      const whole = (i === 0 || glob[i - 1] === "/") && glob[i + 2] === "/"
      // Whole names, each with its slash, or none at all.
      const skip: number[] = [states.length + 1]
      if (whole) jump(skip)
      many(() => true)
      if (whole) {
        byte((one) => one === slash)
        skip.push(states.length)
      }
      i += whole ? 2 : 1
    } else if (c === "*") many(isName)
    else if (c === "?") byte(isName)
    else if (classEnd > 0) {
      byte(classOf(glob.slice(i + 1, classEnd)))
      i = classEnd
    } else if (c === "{") {
      const branches = [states.length + 1]
      jump(branches)
      braces.push({ branches, ends: [] })
    } else if (c === "}" && braces.length > 0) close()
    else if (c === "," && braces.length > 0) {
      const end: number[] = []
      jump(end)
      braces.at(-1)!.ends.push(end)
      braces.at(-1)!.branches.push(states.length)
    } else {
      const code = c.charCodeAt(0)
      byte((one) => one === code)
    }
  }
  while (braces.length > 0) close()
  return matcher(states)
}

/** Places of the automaton that a path can be in together, with where each byte leads from there, as far as it was asked. */
interface Place {
  readonly states: readonly number[]
  readonly next: (Place | undefined)[]
  readonly isEnd: boolean
}

/** Places that are kept; a pattern of very many begins again. */
const keptPlaces = 500

const matcher = (states: readonly State[]): ((path: TreePath) => boolean) => {
  const known = new Map<string, Place>()
  const placeOf = (first: readonly number[]): Place => {
    const seen = new Set<number>()
    const todo = [...first]
    for (let at = todo.pop(); at !== undefined; at = todo.pop()) {
      if (seen.has(at)) continue
      seen.add(at)
      const state = states[at]
      if (state !== undefined && state.fits === undefined) todo.push(...state.next)
    }
    const all = [...seen].sort((a, b) => a - b)
    const key = all.join(" ")
    const found = known.get(key)
    if (found !== undefined) return found
    if (known.size >= keptPlaces) known.clear()
    const place: Place = { states: all, next: [], isEnd: seen.has(states.length) }
    known.set(key, place)
    return place
  }
  const step = ({ states: from }: Place, byte: number): Place =>
    placeOf(
      from.flatMap((at) => {
        const state = states[at]
        return state?.fits?.(byte) === true ? [state.next as number] : []
      })
    )
  return (path) => {
    let place = placeOf([0])
    for (let i = 0; i < path.length && place.states.length > 0; i += 1) {
      const byte = path.charCodeAt(i)
      place = place.next[byte] ??= step(place, byte)
    }
    return place.isEnd
  }
}
