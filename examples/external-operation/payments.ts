/**
 * A payment service, simulated: `node payments.ts DIRECTORY`. Under one key it pays once, however often it is asked. It also posts paper
 * letters, of which it keeps no record that could be asked for.
 */
import { type Entry, type Request, serve } from "./wire.ts"

const payments = (log: readonly Entry[], note: (entry: Entry) => void) => {
  const paid = new Set(
    log.filter(({ what, kind }) => what === "executed" && kind === "pay").map(({ effect }) => effect)
  )
  return (request: Request): object => {
    const { verb, effectId, attempt, kind, operation } = request as any
    switch (verb) {
      case "dispatch":
        if (kind === "pay" && (operation as { eur: number }).eur > 1000) {
          note({ what: "refused", effect: effectId, attempt })
          return { state: "refused", summary: "above the limit" }
        }
        if (kind === "pay" && paid.has(effectId)) {
          note({ what: "repeated", effect: effectId, attempt })
        } else {
          note({ what: "executed", effect: effectId, attempt, kind, operation })
          if (kind === "pay") paid.add(effectId)
        }
        return { state: "confirmed", receipt: `${kind}-${effectId.split("/").at(-1)}` }
      case "readBack":
        // A request may still be on its way: that nothing is found proves nothing.
        return paid.has(effectId) ? { state: "confirmed" } : { state: "notFound" }
      case "interlocks":
        return { interlocks: [] }
      default:
        return {}
    }
  }
}

serve(process.argv[2]!, "payments", payments)
