/**
 * The canonical text of JSON values, against the published implementation.
 */
import canonicalize from "canonicalize"
import * as fc from "fast-check"
import { assert, test } from "vitest"
import { canonicalJson, digestJson, type Json } from "../../src/base/Digest.ts"

test("G2 G4 the canonical text of any JSON value is the one of RFC 8785", () => {
  const odd = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.constantFrom("10", "9", "é", "\u{1f600}", "\u{e000}", "__proto__")
  )
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { depthSize: "small" },
      odd,
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.integer(),
      fc.constantFrom(null, true, false, -0, 1e21, 1e-7),
      fc.array(tie("value")),
      fc.dictionary(odd, tie("value"))
    )
  }))
  fc.assert(fc.property(value, (json) => assert.equal(canonicalJson(json as Json), canonicalize(json))))
})

test("G2 what JSON cannot hold is refused as by the published implementation, and an undefined property is left out", () => {
  const circle: { self?: unknown } = {}
  circle.self = circle
  for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, "\ud800", { "\udc00": 1 }, circle]) {
    assert.throws(() => canonicalize({ bad }))
    assert.throws(() => canonicalJson({ bad } as unknown as Json))
  }
  const told = { at: new Date(0), gone: undefined, list: [undefined, 1] }
  assert.equal(canonicalJson(told as unknown as Json), '{"at":"1970-01-01T00:00:00.000Z","list":[null,1]}')
  assert.equal(digestJson({ b: 1, a: 2 }), digestJson({ a: 2, b: 1 }))
  const deep = Array.from({ length: 100 }).reduce<Json>((inner) => [inner], 1)
  assert.equal(canonicalJson(deep), canonicalize(deep))
})
