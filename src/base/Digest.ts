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

/** The canonical JSON text of a value (RFC 8785). Throws a TypeError for what JSON cannot hold (NaN, functions, cycles). */
export const canonicalJson = (value: Json): string => {
  const text = canonicalize(value)
  if (text === undefined) throw new TypeError("This value has no JSON form")
  return text
}

/** The digest of a value over its canonical JSON. */
export const digestJson = (value: Json): Digest => sha256(canonicalJson(value))
