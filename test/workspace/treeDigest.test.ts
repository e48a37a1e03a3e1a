/** The provider-neutral tree digest against vectors that another program computed. Rules: W5, W6. */
import { readFileSync } from "node:fs"
import { describe, expect, it } from "vitest"
import {
  ContentDigester,
  contentDigest,
  type DigestEntry,
  fullProfile,
  sameTree,
  treeDigest,
  treeDigestVersion
} from "../../src/workspace/TreeDigest.ts"
import type { Candidate } from "../../src/workspace/Candidate.ts"
import { seededRandom } from "../seededRandom.ts"

interface Vector {
  readonly name: string
  readonly digest: string
  readonly entries: readonly {
    readonly path: string
    readonly type: DigestEntry["type"]
    readonly mode: number
    readonly bytes?: string
    readonly repeat?: { readonly unit: string; readonly count: number; readonly tail: string }
    readonly target?: string
    readonly linkGroup?: string
  }[]
}

const golden = JSON.parse(readFileSync(new URL("../golden/tree-digest.json", import.meta.url), "utf8")) as {
  readonly profile: string
  readonly version: number
  readonly vectors: readonly Vector[]
}

const latin = (base64: string | undefined): string | null =>
  base64 === undefined ? null : Buffer.from(base64, "base64").toString("latin1")

const bytesOf = (entry: Vector["entries"][number]): Buffer => {
  if (entry.repeat === undefined) return Buffer.from(entry.bytes ?? "", "base64")
  const { unit, count, tail } = entry.repeat
  const part = Buffer.from(unit, "base64")
  return Buffer.concat([Buffer.alloc(part.length * count, part), Buffer.from(tail, "base64")])
}

const decode = (vector: Vector): DigestEntry[] =>
  vector.entries.map((entry) => ({
    path: latin(entry.path)!,
    type: entry.type,
    mode: entry.mode,
    content: entry.type === "file" ? contentDigest(bytesOf(entry)) : null,
    target: latin(entry.target),
    linkGroup: latin(entry.linkGroup)
  }))

describe("tree digest", () => {
  it.each(golden.vectors)("W6 golden vector: $name", (vector) => {
    expect(golden).toMatchObject({ profile: fullProfile, version: treeDigestVersion })
    expect(treeDigest(decode(vector))).toBe(vector.digest)
    expect(treeDigest(decode(vector).toReversed())).toBe(vector.digest)
  })

  it("W6 every compared dimension changes the digest", () => {
    const file: DigestEntry = {
      path: "a",
      type: "file",
      mode: 0o644,
      content: contentDigest(Buffer.from("x")),
      target: null,
      linkGroup: null
    }
    const link: DigestEntry = { ...file, path: "l", type: "symlink", mode: 0, content: null, target: "a" }
    const variants: DigestEntry[][] = [
      [file, link],
      [{ ...file, path: "b" }, link],
      [{ ...file, mode: 0o645 }, link],
      [{ ...file, content: contentDigest(Buffer.from("y")) }, link],
      [{ ...file, linkGroup: "a" }, link],
      [file, { ...link, target: "b" }],
      [{ ...file, type: "directory", content: null }, link],
      [file]
    ]
    expect(new Set(variants.map((entries) => treeDigest(entries))).size).toBe(variants.length)
    expect(treeDigest([file], "another profile")).not.toBe(treeDigest([file]))
  })

  it("W6 digests of two profiles are never compared", () => {
    const a: Candidate = {
      provider: "p",
      providerVersion: "1",
      store: "s",
      project: "p",
      commit: "c",
      root: "sha256:0",
      treeDigest: "sha256:1",
      profile: fullProfile,
      environment: "sha256:2",
      parent: null
    }
    expect(sameTree(a, { ...a, commit: "other" })).toBe(true)
    expect(sameTree(a, { ...a, treeDigest: "sha256:3" })).toBe(false)
    expect(() => sameTree(a, { ...a, profile: "weaker" })).toThrowError(
      expect.objectContaining({ _tag: "ProfileMismatch", left: fullProfile, right: "weaker" })
    )
  })
})

describe("content that comes in pieces", () => {
  const block = 4 * 1024 * 1024
  const seed = Number(process.env["COPPICE_SEED"] ?? Date.now() % 1_000_000)
  const random = seededRandom(seed)

  it("W6 C19 whatever the pieces and whatever of them is a hole, the digest is that of the whole bytes", () => {
    for (let round = 0; round < 60; round += 1) {
      const digester = new ContentDigester()
      const whole: Buffer[] = []
      for (let pieces = random(5); pieces >= 0; pieces -= 1) {
        const length = [0, 1, 17, block - 1, block, block + 1, 2 * block, random(3 * block)][random(8)]!
        const isHole = random(2) === 0
        const bytes = isHole ? Buffer.alloc(length) : Buffer.alloc(length, random(255) + 1)
        if (isHole) digester.addZeros(length)
        else digester.add(bytes)
        whole.push(bytes)
      }
      const bytes = Buffer.concat(whole)
      expect(digester.length).toBe(bytes.length)
      expect(digester.end(), `${seed} ${whole.map((piece) => piece.length).join(" ")}`).toBe(contentDigest(bytes))
    }
  })

  it("C19 a terabyte of nothing is digested without a byte of it", () => {
    const digester = new ContentDigester()
    digester.addZeros(2 ** 40)
    expect(digester.length).toBe(2 ** 40)
    expect(digester.end()).toMatch(/^sha256:[0-9a-f]{64}$/)
  })
})
