/** The program of the thread in which a provider without one of its own looks for lines. Rules: L12, W4. */
import { parentPort } from "node:worker_threads"
import { Bounded } from "./Bounded.ts"
import { encodeError } from "./ErrorTransfer.ts"
import type { GrepAnswer, GrepRequest } from "./GrepThread.ts"
import { grepTexts } from "./GrepTexts.ts"

const bounded = new Bounded()
parentPort?.on("message", ({ id, input }: GrepRequest) => {
  let answer: GrepAnswer
  try {
    answer = { id, matches: grepTexts(bounded, input) }
  } catch (error) {
    answer = { id, error: encodeError(error) }
  }
  parentPort?.postMessage(answer, [])
})
