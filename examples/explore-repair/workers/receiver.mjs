// The receiver: goes on from the checkpoint that the route "exact amount in the row" handed over. It first checks that the
// half-way state is really there, takes from the finding which file is left and what to use, does that, and tests.
import { takeTurn } from "./turn.mjs"

const loop = `  const amounts: number[] = []
  const unreadable: string[] = []
  const unknown: string[] = []
  for (const row of spends) {
    const { usd, artifactReadable } = amountOf(directory, row)
    if (!artifactReadable) unreadable.push(row.id)
    if (usd === undefined) unknown.push(row.id)
    else amounts.push(usd)
  }
  return { spentUsd: addUsd(amounts), unreadable, unknown }
}
`

const tests = `
  test("names the unreadable artifact, leaves the healthy account alone, and clears when it is restored", () => {
    spend("a", "acme", 10)
    spend("b", "other", 4)
    const path = join(directory, "artifacts", "a.json")
    const kept = readFileSync(path)
    rmSync(path)
    assert.deepEqual(status(directory, "acme", policy, now).unreadable, ["a"])
    assert.equal(status(directory, "acme", policy, now).spentUsd, 10)
    assert.equal(status(directory, "other", policy, now).eligible, true)
    writeFileSync(path, kept)
    assert.deepEqual(status(directory, "acme", policy, now).unreadable, [])
  })

  test("holds an account whose amount of version 1 is lost, and only while it is in the window", () => {
    const row = { v: 1, kind: "spend", id: "old", account: "acme", at: now - day, artifact: "artifacts/old.json" }
    appendFileSync(join(directory, "ledger.jsonl"), \`\${JSON.stringify(row)}\\n\`)
    assert.equal(status(directory, "acme", policy, now).eligible, false)
    assert.equal(status(directory, "other", policy, now).eligible, true)
    assert.equal(status(directory, "acme", policy, now + 30 * day).eligible, true)
  })
})
`

const format = `
Version 2 of a spend row also holds the exact amount, which counts whatever becomes of the artifact:

    {"v":2,"kind":"spend","id":"s-2","account":"acme","at":1767225600000,"usd":0.25,"artifact":"artifacts/s-2.json"}

A row of version 1 whose artifact is lost has no known amount: it holds back its own account while it is in the window.
`

takeTurn(({ request, progress, read, write, sed, move, build, tests: testsPass, npmTest }) => {
  const finding = request.findings.find(({ text }) => /Left to do: (\S+\.ts)/.test(text) && /move it to (\w+)/.test(text))
  if (finding === undefined) return { outcome: "failed", summary: "No finding says what is left to do." }
  const [, file] = /Left to do: (\S+\.ts)/.exec(finding.text)
  const [, use] = /move it to (\w+)/.exec(finding.text)

  progress("checking the state that was handed over")
  const gate = "packages/gate/src/gate.ts"
  const halfWay =
    read("packages/core/src/index.ts").includes(use) &&
    /^ {4}v: 2,$/m.test(read("packages/core/src/ledger.ts")) &&
    read(file).includes("readArtifact(directory, row)")
  build()
  if (!halfWay || !testsPass("core") || testsPass("gate")) {
    return { outcome: "failed", summary: "The checkpoint is not the half-way state that the finding describes." }
  }

  progress(`moving ${file} to ${use}`)
  const window = read(file)
  write(file, window.slice(0, window.indexOf("  const amounts: number[] = []")) + loop)
  sed(`s/import { addUsd, openSpends, readArtifact }/import { addUsd, ${use}, openSpends }/`, file)
  sed("/readonly unreadable: readonly string\\[\\]/a \\  /** Ids of spends in the window whose amount nobody knows. */\\n  readonly unknown: readonly string[]", file)
  sed("s/const { spentUsd, unreadable } =/const { spentUsd, unreadable, unknown } =/", gate)
  sed("s/return { account, eligible: spentUsd < policy.limitUsd,/return { account, eligible,/", gate)
  sed("/return { account, eligible,/i \\  const eligible = unknown.length === 0 && spentUsd < policy.limitUsd", gate)

  const gateTest = "packages/gate/src/test/gate.test.ts"
  write(`${gateTest}.new`, read(gateTest).replace(/}\)\n$/, tests))
  sed("s/import { mkdtempSync, rmSync }/import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync }/", `${gateTest}.new`)
  move(`${gateTest}.new`, gateTest)
  const docs = read("docs/format.md")
  write("docs/format.md", docs.replace("\n`artifacts/ID.json`", `${format}\n\`artifacts/ID.json\``))

  progress("building and testing")
  if (!npmTest()) return { outcome: "failed", summary: "The tests do not pass with the gate moved over." }
  return {
    outcome: "completed",
    summary: "The gate counts the exact amount of the row, reports unreadable artifacts and leaves other accounts alone.",
    usedFindings: [finding.id],
    findings: [
      {
        status: "confirmed",
        text: "With the amount in the row, a lost artifact changes a report and nothing else; restoring it clears the report."
      }
    ]
  }
})
