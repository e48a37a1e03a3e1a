// What the oracle asks of a candidate, through the public functions of its built packages and nothing else: no file of
// the candidate is looked at, so every way of repairing it that keeps the promises of docs/format.md passes.
// The working directory is the candidate's checkout. The title of each test is the name of a check in the verdict.
import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { test } from "node:test"
import { pathToFileURL } from "node:url"

const entry = (name) => pathToFileURL(resolve("packages", name, "dist", "index.js")).href
const { recordSpend, totalSpent, voidSpend } = await import(entry("core"))
const { eligibleAccounts, status } = await import(entry("gate"))

const day = 24 * 60 * 60 * 1000
const now = Date.UTC(2026, 4, 31)
const policy = { limitUsd: 10, window: "30d" }

const withLedger = (use) => {
  const directory = fs.mkdtempSync(join(tmpdir(), "held-out-"))
  try {
    return use(directory)
  } finally {
    fs.rmSync(directory, { recursive: true, force: true })
  }
}

const artifact = (directory, id) => join(directory, "artifacts", `${id}.json`)

/** acme is exactly at its limit, with amounts that floating point does not add up to 10; bolt is healthy. */
const throttled = (directory) => {
  const spend = (id, account, usd, at = now - day) => recordSpend(directory, { id, account, at, usd, provider: "p" })
  spend("a1", "acme", 0.1)
  spend("a2", "acme", 0.2)
  spend("a3", "acme", 9.7)
  spend("b1", "bolt", 4)
  return spend
}

const damages = {
  deleted: (path) => fs.rmSync(path),
  // Root reads every file, so unreadable here is what even root cannot read as a file.
  unreadable: (path) => (fs.rmSync(path), fs.mkdirSync(path)),
  truncated: (path) => fs.truncateSync(path, 9),
  empty: (path) => fs.truncateSync(path, 0),
  list: (path) => fs.writeFileSync(path, "[]"),
  null: (path) => fs.writeFileSync(path, "null"),
  "wrong shape": (path) => fs.writeFileSync(path, '{"spendId":"a3","provider":"p","usd":"9.7"}'),
  "invalid UTF-8": (path) => fs.writeFileSync(path, Buffer.from([0x7b, 0xff, 0xfe, 0x7d])),
  "another spend's": (path) => fs.writeFileSync(path, '{"spendId":"b1","provider":"p","usd":0}'),
  "dangling link": (path) => (fs.rmSync(path), fs.symlinkSync("nowhere", path))
}

test("healthy-accounts-are-left-alone", () => {
  withLedger((directory) => {
    throttled(directory)
    fs.rmSync(artifact(directory, "a3"))
    const healthy = status(directory, "bolt", policy, now)
    assert.equal(healthy.eligible, true, "another account stays eligible")
    assert.equal(healthy.spentUsd, 4)
    assert.deepEqual(healthy.unreadable, [])
    assert.equal(status(directory, "newcomer", policy, now).eligible, true)
    assert.deepEqual(eligibleAccounts(directory, ["acme", "bolt", "newcomer"], policy, now), ["bolt", "newcomer"])
  })
})

test("an-account-below-its-limit-may-lose-an-artifact", () => {
  withLedger((directory) => {
    throttled(directory)
    fs.rmSync(artifact(directory, "b1"))
    const healthy = status(directory, "bolt", policy, now)
    assert.equal(healthy.eligible, true, "its spend is still known")
    assert.equal(healthy.spentUsd, 4)
  })
})

test("exact-amount-whatever-happens-to-the-artifact", () => {
  for (const [name, damage] of Object.entries(damages)) {
    withLedger((directory) => {
      throttled(directory)
      damage(artifact(directory, "a3"))
      const seen = status(directory, "acme", policy, now)
      assert.deepEqual({ eligible: seen.eligible, spentUsd: seen.spentUsd }, { eligible: false, spentUsd: 10 }, name)
    })
  }
})

test("the-unreadable-spend-is-reported", () => {
  for (const [name, damage] of Object.entries(damages)) {
    withLedger((directory) => {
      throttled(directory)
      assert.deepEqual(status(directory, "acme", policy, now).unreadable, [], "nothing is unreadable yet")
      damage(artifact(directory, "a3"))
      assert.deepEqual(status(directory, "acme", policy, now).unreadable, ["a3"], name)
    })
  }
})

test("the-whole-artifact-directory-moved-and-restored", () => {
  withLedger((directory) => {
    throttled(directory)
    fs.renameSync(join(directory, "artifacts"), join(directory, "elsewhere"))
    assert.equal(status(directory, "acme", policy, now).eligible, false)
    assert.equal(status(directory, "acme", policy, now).spentUsd, 10)
    assert.deepEqual([...status(directory, "acme", policy, now).unreadable].sort(), ["a1", "a2", "a3"])
    assert.equal(status(directory, "bolt", policy, now).eligible, true)
    fs.renameSync(join(directory, "elsewhere"), join(directory, "artifacts"))
    assert.deepEqual(status(directory, "acme", policy, now).unreadable, [])
    assert.equal(status(directory, "acme", policy, now).spentUsd, 10)
    assert.equal(status(directory, "bolt", policy, now).eligible, true)
  })
})

test("throttling-ends-with-the-window", () => {
  withLedger((directory) => {
    throttled(directory)
    fs.rmSync(artifact(directory, "a3"))
    const at = now - day
    const window = 30 * day
    assert.equal(status(directory, "acme", policy, at + window).eligible, false, "the first millisecond is inside")
    const after = status(directory, "acme", policy, at + window + 1)
    assert.deepEqual(
      { eligible: after.eligible, spentUsd: after.spentUsd, unreadable: [...after.unreadable] },
      { eligible: true, spentUsd: 0, unreadable: [] },
      "one millisecond later it is outside"
    )
  })
})

test("a-lost-spend-of-the-future-counts", () => {
  withLedger((directory) => {
    const spend = (id, at) => recordSpend(directory, { id, account: "acme", at, usd: 5, provider: "p" })
    spend("now", now)
    spend("later", now + 100 * day)
    fs.rmSync(artifact(directory, "later"))
    const seen = status(directory, "acme", policy, now)
    assert.deepEqual({ eligible: seen.eligible, spentUsd: seen.spentUsd }, { eligible: false, spentUsd: 10 })
  })
})

test("a-void-takes-back-exactly-its-lost-spend", () => {
  withLedger((directory) => {
    throttled(directory)
    fs.rmSync(artifact(directory, "a3"))
    voidSpend(directory, "a3", now)
    const seen = status(directory, "acme", policy, now)
    assert.deepEqual({ eligible: seen.eligible, spentUsd: seen.spentUsd }, { eligible: true, spentUsd: 0.3 })
  })
})

test("the-total-of-the-ledger-is-exact-too", () => {
  withLedger((directory) => {
    throttled(directory)
    fs.rmSync(artifact(directory, "a2"))
    fs.writeFileSync(artifact(directory, "a3"), "{")
    assert.equal(totalSpent(directory, "acme"), 10)
    assert.equal(totalSpent(directory, "bolt"), 4)
  })
})

test("asking-changes-nothing-on-disk", () => {
  withLedger((directory) => {
    throttled(directory)
    fs.rmSync(artifact(directory, "a3"))
    const tree = () =>
      fs
        .readdirSync(directory, { recursive: true })
        .sort()
        .map((name) => [name, fs.statSync(join(directory, name)).isFile() && fs.readFileSync(join(directory, name), "utf8")])
    const before = tree()
    status(directory, "acme", policy, now)
    eligibleAccounts(directory, ["acme", "bolt"], policy, now)
    assert.deepEqual(tree(), before)
  })
})

test("another-process-decides-the-same", () => {
  withLedger((directory) => {
    throttled(directory)
    fs.rmSync(artifact(directory, "a3"))
    const program = `
      import { status } from ${JSON.stringify(entry("gate"))}
      console.log(JSON.stringify(status(${JSON.stringify(directory)}, "acme", ${JSON.stringify(policy)}, ${now})))`
    const out = execFileSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" })
    const { eligible, spentUsd } = JSON.parse(out)
    assert.deepEqual({ eligible, spentUsd }, { eligible: false, spentUsd: 10 })
  })
})

test("directories-of-version-1-stay-readable-and-safe", () => {
  withLedger((directory) => {
    fs.mkdirSync(join(directory, "artifacts"))
    const old = (id, account, usd) => {
      const row = { v: 1, kind: "spend", id, account, at: now - day, artifact: `artifacts/${id}.json` }
      fs.appendFileSync(join(directory, "ledger.jsonl"), `${JSON.stringify(row)}\n`)
      fs.writeFileSync(artifact(directory, id), JSON.stringify({ spendId: id, provider: "p", usd }))
    }
    old("o1", "acme", 9.5)
    old("o2", "bolt", 1)
    recordSpend(directory, { id: "n1", account: "acme", at: now, usd: 0.5, provider: "p" })
    assert.equal(status(directory, "acme", policy, now).spentUsd, 10, "old and new rows add up")
    assert.equal(status(directory, "acme", policy, now).eligible, false)
    const kept = fs.readFileSync(artifact(directory, "o1"))
    fs.rmSync(artifact(directory, "o1"))
    assert.equal(status(directory, "acme", policy, now).eligible, false, "an unknown amount makes nobody eligible")
    assert.deepEqual(status(directory, "acme", policy, now).unreadable, ["o1"])
    assert.equal(status(directory, "bolt", policy, now).eligible, true)
    assert.equal(status(directory, "acme", policy, now + 30 * day + 1).eligible, true, "nor does it hold for ever")
    fs.writeFileSync(artifact(directory, "o1"), kept)
    assert.equal(status(directory, "acme", policy, now).spentUsd, 10)
    assert.deepEqual(status(directory, "acme", policy, now).unreadable, [])
  })
})

test("limits-are-still-checked", () => {
  withLedger((directory) => {
    throttled(directory)
    assert.equal(status(directory, "newcomer", { limitUsd: 0, window: "30d" }, now).eligible, false)
    for (const limitUsd of [-1, Number.NaN, Number.POSITIVE_INFINITY]) {
      assert.throws(() => status(directory, "bolt", { limitUsd, window: "30d" }, now))
    }
    assert.throws(() => recordSpend(directory, { id: "a1", account: "acme", at: now, usd: 1, provider: "p" }))
    assert.throws(() => recordSpend(directory, { id: "n", account: "acme", at: now, usd: -1, provider: "p" }))
  })
})
