/**
 * A positioning stage, simulated: `node stage.ts DIRECTORY`. It moves by what it is told each time it is told, so asking twice moves
 * twice; it keeps the ids of what it did, bars what it was asked about and does not know, and knows by itself whether it moves.
 */
import { type Entry, type Request, serve } from "./wire.ts"

const ticksToStop = 3

const stage = (log: readonly Entry[], note: (entry: Entry) => void) => {
  const done = new Set(log.filter(({ what }) => what === "executed").map(({ effect }) => effect))
  const barred = new Map<string, number>()
  for (const { what, effect, attempt } of log) if (what === "barred") barred.set(effect, Number(attempt))
  const stopped = new Set(log.filter(({ what }) => what === "stopAsked").map(({ effect }) => effect))
  let doorOpen = log.findLast(({ what }) => what === "door")?.["open"] !== false
  /** What is scanning, and how many ticks it still moves; a stage that was switched off stands still. */
  let scanning: { effect: string; ticksLeft: number } | undefined
  const ticking = setInterval(() => {
    if (scanning === undefined) return
    scanning.ticksLeft -= 1
    if (scanning.ticksLeft > 0) return
    note({ what: "standsStill", effect: scanning.effect })
    scanning = undefined
  }, 10)
  ticking.unref()

  const execute = (effect: string, attempt: number, kind: string, operation: unknown): object => {
    if (stopped.has(effect) || attempt <= (barred.get(effect) ?? 0)) {
      note({ what: "refused", effect, attempt })
      return { state: "refused", summary: "barred" }
    }
    if (kind === "move" && Math.abs((operation as { by: number }).by) > 100) {
      note({ what: "refused", effect, attempt })
      return { state: "refused", summary: "beyond the end of the rail" }
    }
    note({ what: "executed", effect, attempt, kind, operation })
    done.add(effect)
    if (kind === "scan") scanning = { effect, ticksLeft: Number.POSITIVE_INFINITY }
    return { state: "confirmed", receipt: `stage-${done.size}` }
  }

  return (request: Request): object => {
    const { verb, effectId, attempt, kind, operation, open } = request as any
    switch (verb) {
      case "dispatch":
        return execute(effectId, attempt, kind, operation)
      case "readBack":
        if (done.has(effectId)) return { state: "confirmed", summary: "it is in the stage's log" }
        // From here on nothing that was sent up to this attempt is carried out, should it arrive after all.
        barred.set(effectId, attempt)
        note({ what: "barred", effect: effectId, attempt })
        return { state: "notExecuted" }
      case "interlocks":
        return { interlocks: [{ name: "door", engaged: doorOpen, reason: "the door is open", kinds: ["scan"] }] }
      case "stop":
        if (!stopped.has(effectId)) note({ what: "stopAsked", effect: effectId })
        stopped.add(effectId)
        if (scanning?.effect === effectId) scanning!.ticksLeft = Math.min(scanning!.ticksLeft, ticksToStop)
        return {}
      case "stopped":
        return scanning?.effect === effectId
          ? { state: "moving", summary: "it slows down" }
          : { state: "stopped", summary: "its encoder does not change" }
      case "door":
        doorOpen = open
        note({ what: "door", effect: "", open })
        return {}
      default:
        return {}
    }
  }
}

serve(process.argv[2]!, "stage", stage)
