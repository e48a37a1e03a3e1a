/**
 * Digests: `sha256:<hex>` of bytes, and of JSON values over their canonical form (RFC 8785).
 * Promise: equal values have equal digests on every machine; parts are never joined with separators. (01, Time, ids, bytes)
 */
import { hash } from "node:crypto"
import canonicalize from "canonicalize"

/** A digest as `sha256:` and 64 hexadecimal digits. */
export type Digest = `sha256:${string}`

/** A JSON value. `undefined` properties are left out, as JSON itself does. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json | undefined }

/** The digest of bytes, or of a string as UTF-8. */
export const sha256 = (data: Uint8Array | string): Digest => `sha256:${hash("sha256", data, "hex")}`

/** With the flag `u` a pair is one code point, and only half of one matches. */
const loneSurrogate = /\p{Surrogate}/u

/** Deeper than anything that is written here; what goes on for ever ends there. */
const deepest = 64

/**
 * The canonical text of what is most common, by the engine's own serialiser of texts and numbers, which is the one that RFC 8785
 * §3.2.2 refers to. Undefined for everything that needs a second look: a cycle, a lone surrogate, a `toJSON`, no JSON at all.
 */
const plainCanonical = (value: unknown, depth: number): string | undefined => {
  if (typeof value === "string") return loneSurrogate.test(value) ? undefined : JSON.stringify(value)
  if (typeof value === "number") return Number.isFinite(value) ? JSON.stringify(value) : undefined
  if (typeof value === "boolean") return value ? "true" : "false"
  if (value === null) return "null"
  if (typeof value !== "object" || depth > deepest || "toJSON" in value) return undefined
  let text = ""
  if (Array.isArray(value)) {
    for (const item of value) {
      const part = plainCanonical(item, depth + 1)
      if (part === undefined) return undefined
      text += text === "" ? part : `,${part}`
    }
    return `[${text}]`
  }
  // By UTF-16 code units (§3.2.3), as `sort` compares texts.
  for (const key of Object.keys(value).sort()) {
    const field = (value as Record<string, unknown>)[key]
    if (field === undefined) continue
    const part = plainCanonical(field, depth + 1)
    if (part === undefined || loneSurrogate.test(key)) return undefined
    text += `${text === "" ? "" : ","}${JSON.stringify(key)}:${part}`
  }
  return `{${text}}`
}

/** The canonical JSON text of a value (RFC 8785). Throws a TypeError for what JSON cannot hold (NaN, functions, cycles). */
export const canonicalJson = (value: Json): string => {
  const text = plainCanonical(value, 0) ?? canonicalize(value)
  if (text === undefined) throw new TypeError("This value has no JSON form")
  return text
}

/** The digest of a value over its canonical JSON. */
export const digestJson = (value: Json): Digest => sha256(canonicalJson(value))
