/**
 * Named points at which a test can make a write fail as a full or broken disk would.
 * Promise: no cost and no effect in the published build, like a crash point; the list is closed, and each stands right before
 * the call that it makes fail. Rules: L8; 08 "every write can be made to fail". The harness sets COPPICE_FAULT_AT to
 * `NAME`, `NAME:N` (the N-th passage in one thread) or `NAME:N:CODE`; the code is ENOSPC unless it is given. Several are
 * separated by commas.
 */
declare const __COPPICE_CRASH_POINTS__: boolean | undefined

export const faultPoints = [
  "file.open",
  "file.write",
  "file.sync",
  "file.rename",
  "file.syncDirectory",
  "layerfs.pack.create",
  "layerfs.pack.append",
  "layerfs.pack.sync",
  "layerfs.pack.syncDirectory",
  "layerfs.pack.truncate",
  "refs.index.commit",
  "layerfs.compact.commit",
  "layerfs.import.remember",
  "reflink.place",
  "layers.mark",
  "layers.place",
  "workspace.make",
  "workspace.mountTable",
  "authority.commit"
] as const

export type FaultPointName = (typeof faultPoints)[number]

/** Reads the harness's wish, and obeys it. */
const armed = (): ((name: FaultPointName) => void) => {
  const faults = (process.env["COPPICE_FAULT_AT"] ?? "").split(",").map((text) => {
    const [name = "", nth = "1", code = "ENOSPC"] = text.split(":")
    return { name, code, remaining: Number(nth) }
  })
  return (name) => {
    const fault = faults.find((one) => one.name === name)
    if (fault === undefined) return
    fault.remaining -= 1
    if (fault.remaining !== 0) return
    const { code } = fault
    // SQLite's own shape for its own file: a full disk is its error 13, any other one 10 (SQLITE_IOERR).
    const isDatabase = name === "refs.index.commit" || name === "layerfs.compact.commit" || name === "authority.commit"
    const shape = isDatabase
      ? { code: "ERR_SQLITE_ERROR", errcode: code === "ENOSPC" ? 13 : 10 }
      : { code, syscall: "write" }
    throw Object.assign(new Error(`${code}: injected, write`), shape)
  }
}

/** Throws the system error that the harness asked for, once; otherwise does nothing. */
// In the published build the condition is a constant and the calls of an empty function are dropped.
export const faultPoint: (name: FaultPointName) => void =
  typeof __COPPICE_CRASH_POINTS__ !== "undefined" && !__COPPICE_CRASH_POINTS__ ? () => {} : armed()
