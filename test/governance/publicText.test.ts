/** G6: what counts as a private text, and what honest work says that must not be refused. */
import { assert, test } from "vitest"
import { Quota } from "../../src/governance/index.ts"
import { privateField, publicOr } from "../../src/governance/PublicText.ts"
import { newBench, newGoal } from "./authority.ts"

const paths = [
  "/nix/store/abc/secret",
  "/app/src/x",
  "/workspaces/me/src/x",
  "/builds/group/project/node_modules/x",
  "/Volumes/disk/x",
  "/github/workspace/x",
  "cc -I/home/me/inc",
  "see;/home/me/x",
  "«/home/me/x»",
  "“/home/me/x”",
  "*/home/me/x*",
  "a—/home/me/x",
  "file:/home/me",
  "file:///C/x",
  "C:/Users/me/x",
  "C:\\Users\\me",
  "\\\\server\\share\\x"
]

// Written apart, so that no scanner of secrets stops at this file.
const credentials = [
  ["glpat-", "abcdefghij1234567890"],
  ["sk_", "live_abcdefghijklmnopqrstuvwx"],
  ["AI", "zaSyA1234567890abcdefghijklmnopqrstuv"],
  ["npm", "_abcdefghijklmnopqrstuvwxyz0123456789"],
  ["AS", "IAABCDEFGHIJKLMNOP"],
  ["hf", "_abcdefghijklmnopqrstuvwxyz"],
  ["password=", "hunter2hunter2"],
  ["postgres://u:", "hunter2@db/x"],
  ["https://hooks.slack.", "com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"],
  ["AWS_SECRET_ACCESS_", "KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"],
  ["bearer ", "abcdefghijklmnopqrstuvwxyz"],
  ["Basic ", "dXNlcjpwYXNzd29yZA=="],
  ["Authorization: Basic ", "dXNlcjpwYXNz"]
].map((parts) => parts.join(""))

const honest = [
  "the routes /api/users, /app/dashboard, /builds/12/log, /workspaces/42/members and /github/callback",
  "GET https://example.org/home/x, http://localhost:3000/data/x and https://example.org:8080/tmp/y",
  "patches/home/a.patch, ./tmp/out, ../etc/x and src/var/data.ts",
  "**/data/**, packages/*/tmp/x and !/tmp/",
  "import x from '@/home/HomePage.vue'",
  "${root}/etc/hosts, $DIR/tmp/x and café/home/x",
  "the regex \\d\\w, ^/data/ and \\\\n",
  "and/or, 3/4, n/a, TCP/IP",
  "MAX_TOKENS=100000000, token=process.env.TOKEN2 and password=$PASSWORD",
  "https://user:$TOKEN@example.org, git@example.org:a/b.git and postgres://db:5432/x",
  "Basic internationalization of the bearer authentication-middleware",
  "skip sk-1, npm_config_registry and hf_hub_download",
  "at 10:30 C: x, key: value"
]

test.each(paths)("G6 the path in %j may not be public", (text) => {
  assert.equal(privateField({ text }), "text")
})

test("G6 credentials of published shapes may not be public, in a value or in a key", () => {
  for (const text of credentials) {
    assert.equal(privateField({ said: { text: `with ${text} it works` } }), "said.text", text)
    assert.equal(privateField({ said: { [text]: 1 } }), "said.(a key)", text)
  }
})

test.each(honest)("G6 honest text is not refused: %j", (text) => {
  assert.equal(privateField({ text, [text]: 1 }), undefined)
})

test("G6 a path behind a semicolon or a quotation mark of any kind is cut to its last part", () => {
  assert.equal(publicOr("see;/home/me/agent.sh and «/srv/x/y»", "-"), "see;…/agent.sh and «…/y»")
})

test("G6 a command without a path in it is told as it ran, and one with paths is told by their last parts", () => {
  for (const text of ["sed -i 's/<=/</' src/limit.js", "a / b =/ c", "grep '/^x/' y", "x =/>/ y"]) {
    assert.equal(publicOr(text, "-"), text)
  }
  assert.equal(publicOr("run //srv/share/x ~/bin/y /ключ/z '/opt/a b'", "-"), "run …/x …/y …/z '…/a b'")
})

test("G6 a provider's raw record whose keys are private is kept by its digest alone, and names of them reach no refusal", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const raw = { "/home/me/secret": 1, [`sk-${"a".repeat(20)}`]: 2 }
  await bench.run(
    Quota.spend({ goal: goal.id, effectId: "e", spend: { usd: 1 }, usage: [{ cached: "apart", input: 1, raw }] })
  )
  assert.notMatch(JSON.stringify(await bench.store.journal({ after: 0, limit: 100 })), /secret|sk-/)
})
