/** The hosts of the session tests: one in this process, one in shell; both write the file `value` and speak the protocol. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { inProcessHost, processHost } from "../../providers/host-process/index.ts"
import type { Host, TurnRequest, TurnResult } from "../../src/host/index.ts"
import { read, type Scene } from "./scene.ts"

export const answer = (request: TurnRequest, more: Partial<TurnResult> = {}): TurnResult => ({
  protocol: "coppice.turn",
  version: 1,
  turnKey: request.turnKey,
  outcome: "completed",
  summary: "written",
  usage: { usd: 0.25 },
  ...more
})

/** A host that writes `value`, and remembers what it was asked. */
export const writer = (scene: Scene, value = "right", asked: TurnRequest[] = []): Host =>
  inProcessHost("writer", ({ request }) => {
    asked.push(request)
    writeFileSync(join(scene.files, "value"), value)
    return answer(request)
  })

/** The same in shell, as a process that speaks the protocol; it counts its dispatches in a file. */
export const shellWriter = (script = "echo right > value"): Host =>
  processHost([
    "sh",
    "-c",
    `request=$(cat); echo dispatched >> dispatches; ${script}; key=$(printf %s "$request" | sed 's/.*"turnKey":"\\([^"]*\\)".*/\\1/')
     printf '{"protocol":"coppice.turn","version":1,"turnKey":"%s","outcome":"completed","summary":"written","usage":{"usd":0.25}}' "$key"`
  ])

export const exists = (scene: Scene, name: string): boolean => {
  try {
    read(scene, name)
    return true
  } catch {
    return false
  }
}
