/** A write that fails in the middle of a repair. Rules: L8, G75, G82, J2; `npm run soak -- matrix` has every write. */
import { afterEach, expect, it } from "vitest"
import { faultsAfterFailedWrite, faultsOf, makeTiny, runTiny } from "./tiny.ts"

const cleanups: (() => void)[] = []
afterEach(() => {
  for (const remove of cleanups.splice(0)) remove()
})

it.each([
  ["a file of the record", "file.write:7", "FILE_NOT_WRITTEN"],
  ["a commit of the authority", "authority.commit:16", "STORAGE_FAILURE"],
  ["the directory of a workspace", "workspace.make:2", "FILE_SYSTEM_FAILURE"]
])(
  "L8 G2 G75 W12 %s cannot be written (%s): it is said with a code and a remedy, both stores are whole, and the rerun finishes with nothing doubled",
  (_, fault, code) => {
    const tiny = makeTiny()
    cleanups.push(tiny.remove)
    const met = runTiny(tiny.record, { fault })
    expect(faultsAfterFailedWrite(tiny.record, met)).toEqual([])
    expect(JSON.stringify(met.output.error ?? met.output.report.attempts)).toContain(code)
    expect(faultsOf(tiny.record, runTiny(tiny.record).output, "two", true)).toEqual([])
  },
  600_000
)
