/** Which failure class a failure is. Rules: G84. */
import { assert, test } from "vitest"
import { classifyFailure, FailureClass, type FailureSigns } from "../../src/host/index.ts"
import { triesOf } from "../../src/governance/index.ts"

const table: readonly (readonly [FailureSigns, FailureClass])[] = [
  // The provider's code beats the HTTP status.
  [{ providerCode: "insufficient_quota", httpStatus: 429 }, "quotaExhausted"],
  [{ providerCode: "billing_error", httpStatus: 400 }, "quotaExhausted"],
  [{ providerCode: "overloaded_error", httpStatus: 429 }, "overloaded"],
  [{ providerCode: "rate_limit_exceeded", httpStatus: 400 }, "rateLimited"],
  [{ providerCode: "ThrottlingException", httpStatus: 400 }, "rateLimited"],
  [{ providerCode: "ModelNotReadyException", httpStatus: 429 }, "capacity"],
  [{ providerCode: "ModelTimeoutException", httpStatus: 408 }, "executorTimeout"],
  [{ providerCode: "session_not_found", httpStatus: 404 }, "sessionMissing"],
  [{ providerCode: "context_length_exceeded", httpStatus: 429 }, "contract"],
  [{ providerCode: "max_output_tokens" }, "outputBudget"],
  [{ providerCode: "Access-Denied", httpStatus: 500 }, "auth"],
  [{ providerCode: "transportLost" }, "transportLost"],
  // A code that nobody knows says nothing, and the status is asked.
  [{ providerCode: "teapot", httpStatus: 429 }, "rateLimited"],
  [{ providerCode: "", httpStatus: 401 }, "auth"],
  [{ httpStatus: 401 }, "auth"],
  [{ httpStatus: 403 }, "auth"],
  [{ httpStatus: 402 }, "quotaExhausted"],
  [{ httpStatus: 400 }, "contract"],
  [{ httpStatus: 404 }, "contract"],
  [{ httpStatus: 408 }, "transportLost"],
  [{ httpStatus: 429 }, "rateLimited"],
  [{ httpStatus: 502 }, "transportLost"],
  [{ httpStatus: 503 }, "overloaded"],
  [{ httpStatus: 504 }, "transportLost"],
  [{ httpStatus: 529 }, "overloaded"],
  [{ systemCode: "ECONNRESET" }, "transportLost"],
  [{ systemCode: "EAI_AGAIN" }, "transportLost"],
  [{ httpStatus: 401, systemCode: "ECONNRESET" }, "auth"],
  // What the supervision of the turn saw is certain.
  [{ timedOut: true, providerCode: "overloaded_error", httpStatus: 529 }, "executorTimeout"],
  [{ overOutput: true, httpStatus: 429 }, "outputBudget"],
  // A general fault of the provider is none of those that are tried again.
  [{ httpStatus: 500 }, "unknown"],
  [{ httpStatus: 200 }, "unknown"],
  [{ systemCode: "EACCES" }, "unknown"],
  [{ providerCode: "constructor" }, "unknown"],
  [{}, "unknown"]
]

test("G84 a more specific provider code beats the HTTP status, and what nobody knows is unknown", () => {
  for (const [signs, expected] of table) assert.equal(classifyFailure(signs), expected, JSON.stringify(signs))
  const classes = new Set(table.map(([, expected]) => expected))
  assert.deepEqual(
    FailureClass.literals.filter((name) => !classes.has(name)),
    []
  )
})

test("G84 what is tried again: time limit twice, capacity, overload, rate limit and transport three times, nothing else", () => {
  assert.deepEqual(
    FailureClass.literals.flatMap((name) => (triesOf[name] === undefined ? [] : [[name, triesOf[name]]])),
    [
      ["executorTimeout", 2],
      ["capacity", 3],
      ["overloaded", 3],
      ["rateLimited", 3],
      ["transportLost", 3]
    ]
  )
  assert.equal(Object.keys(triesOf).length, 5)
})
