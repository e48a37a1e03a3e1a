/**
 * Values of two runs made comparable: what differs from run to run by design becomes its number of first appearance.
 * Promise: ids, tokens and digests that were equal stay equal, and different ones stay different; nothing else is touched.
 * Rules: V2.
 */

const named = /^(?:[a-z]+_[0-9a-f]{8}-[0-9a-f-]{27}|sha256:[0-9a-f]{64})$/
const within = /[a-z]+_[0-9a-f]{8}-[0-9a-f-]{27}|sha256:[0-9a-f]{64}/g

const isTime = (key: string): boolean => /(?:At|Until)$/.test(key) || key === "at" || key === "from" || key === "to"
const isSecret = (key: string): boolean => key === "token" || key === "tokenDigest"
/** Which process drives a turn is true of one run only. */
const isProcess = (value: unknown): boolean =>
  typeof value === "object" && value !== null && "pid" in value && "bootId" in value

/** Makes values comparable, with one numbering over all that are given to it in turn. */
export const comparing = (): ((value: unknown) => unknown) => {
  const seen = new Map<string, string>()
  const numbered = (text: string): string => {
    const known = seen.get(text)
    if (known !== undefined) return known
    const name = `#${seen.size + 1}`
    seen.set(text, name)
    return name
  }
  const replace = (key: string, value: unknown): unknown => {
    if (typeof value === "number") return isTime(key) ? "time" : value
    if (isProcess(value)) return "process"
    if (typeof value !== "string") return value
    if (named.test(value) || isSecret(key)) return numbered(value)
    return value.replaceAll(within, numbered)
  }
  return (value) => {
    const text = JSON.stringify(value, replace)
    return text === undefined ? null : JSON.parse(text)
  }
}
