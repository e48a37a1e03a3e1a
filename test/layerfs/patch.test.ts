/** Patches: what an edit makes of its base, damage, and the objects that have several bases. Rules: L8, L10, C21. */
import * as fc from "fast-check"
import { describe, expect, it } from "vitest"
import { deltaFrame, deltaOf, openFrame, parseFrame } from "../../providers/layerfs/Frame.ts"
import { idOf } from "../../src/base/DigestBytes.ts"
import { applyPatch, patchPayload } from "../../providers/layerfs/Patch.ts"
import { seed as seedOf } from "../governance/authority.ts"
import { seeded } from "./contentMemory.ts"

const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 400 }),
  fc.tuple(fc.nat(9000), fc.nat(1000)).map(([length, n]) => seeded(n, length)),
  fc.tuple(fc.nat(9000), fc.nat(255)).map(([length, byte]) => Buffer.alloc(length, byte))
)
/** An edit of a base: places and bytes, also past one another. */
const edits = fc.array(fc.tuple(fc.nat(), fc.nat(60), fc.uint8Array({ maxLength: 60 })), { maxLength: 6 })

const edited = (base: Uint8Array, changes: readonly (readonly [number, number, Uint8Array])[], sameLength: boolean) => {
  let made = Buffer.from(base)
  for (const [place, removed, inserted] of changes) {
    const at = place % (made.length + 1)
    const gone = sameLength ? Math.min(inserted.length, made.length - at) : Math.min(removed, made.length - at)
    const put = sameLength ? inserted.subarray(0, gone) : inserted
    made = Buffer.concat([made.subarray(0, at), put, made.subarray(at + gone)])
  }
  return made
}

describe("patches", () => {
  it("L10 C21 a patch makes the object it was made from out of its base, whatever was edited", () => {
    fc.assert(
      fc.property(bytes, edits, fc.boolean(), (base, changes, sameLength) => {
        const object = edited(base, changes, sameLength)
        const patch = patchPayload(object, Buffer.from(base), object.length)!
        expect(applyPatch(patch, Buffer.from(base), object.length)?.equals(object)).toBe(true)
      }),
      { numRuns: 3000, seed: seedOf() }
    )
  })

  it("C21 edits in three places of a page cost their bytes, an insertion costs its own, and more than the bound is no patch", () => {
    const base = seeded(1, 16_000)
    const object = Buffer.from(base)
    for (const at of [100, 8000, 15_990]) object.set(seeded(at, 8), at)
    expect(patchPayload(object, base, 16_000)!.length).toBeLessThan(24 + 30)
    const inserted = Buffer.concat([
      base.subarray(0, 777),
      Buffer.from("forty bytes more or less, in the middle!"),
      base.subarray(777)
    ])
    expect(patchPayload(inserted, base, 100)!.length).toBeLessThan(40 + 15)
    expect(patchPayload(inserted, base, 39)).toBeUndefined()
    // The end of one piece and the beginning of the next.
    const across = Buffer.concat([base.subarray(5000, 9000), Buffer.from("new"), base.subarray(9100, 12_000)])
    expect(patchPayload(across, base, 100)!.length).toBeLessThan(20)
    expect(patchPayload(seeded(2, 16_000), base, 8000)).toBeUndefined()
  })

  it("C21 what was changed in every record is no patch of thousands of pieces, and comes back out of zstd", () => {
    const base = seeded(8, 65_536)
    const object = Buffer.from(base)
    for (let at = 0; at < object.length; at += 16) object[at]! ^= 1
    expect(patchPayload(object, base, object.length)).toBeUndefined()
    const delta = deltaOf("chunk", object, base, 3)!
    expect(delta.isPatch).toBe(false)
    const frame = parseFrame(deltaFrame(object.length, { ids: [idOf(base)] }, delta))!
    expect(openFrame(frame, base)!.equals(object)).toBe(true)
  })

  it("L10 a patch that was changed anywhere gives other bytes of the promised length or none, and never throws", () => {
    const base = seeded(3, 3000)
    const object = edited(
      base,
      [
        [10, 5, Buffer.from("x".repeat(700))],
        [2500, 3, Buffer.from("yy")]
      ],
      false
    )
    for (const patch of [
      patchPayload(object, base, 3000)!,
      patchPayload(edited(base, [[9, 1, Buffer.from("q")]], false), base, 9)!
    ]) {
      for (let at = 0; at < patch.length; at += 1) {
        for (const flip of [1, 0x80, 0xff]) {
          const damaged = Buffer.from(patch)
          damaged[at]! ^= flip
          const made = applyPatch(damaged, base, object.length)
          expect(made === undefined || made.length === object.length).toBe(true)
        }
        expect(applyPatch(patch.subarray(0, at), base, object.length)).toBeUndefined()
      }
    }
  })

  it("L10 C21 a piece that became one with its neighbour is a patch of both, and what has nothing in common is none", () => {
    const [a, b] = [seeded(5, 40_000), seeded(6, 30_000)]
    const base = Buffer.concat([a, b])
    const object = Buffer.concat([a.subarray(0, 39_000), Buffer.from("instead of the end"), b])
    const delta = deltaOf("chunk", object, base, 3, 2)!
    const frame = deltaFrame(object.length, { ids: [idOf(a), idOf(b)] }, delta)
    expect(frame.length).toBeLessThan(200)
    const parsed = parseFrame(frame)!
    expect(parsed.base).toEqual({ ids: [idOf(a), idOf(b)] })
    expect(openFrame(parsed, base)!.equals(object)).toBe(true)
    for (let end = 0; end < frame.length; end += 1) {
      const part = parseFrame(frame.subarray(0, end))
      expect(part === undefined || openFrame(part, base) === undefined).toBe(true)
    }
    expect(deltaOf("chunk", seeded(7, 50_000), base, 3, 2)).toBeUndefined()
  })
})
