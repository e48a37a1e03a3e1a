/**
 * Workspaces that this process has open, from before their row until their end is over.
 * Promise: one that is being opened, used or ended is nobody's to recover; one whose end failed (a full disk, a row that could not be
 * written) is, also in the process that had opened it. Rules: W12, W23.
 */
const ids = new Set<string>()

export const beginsHere = (workspace: string): void => {
  ids.add(workspace)
}

export const endedHere = (workspace: string): void => {
  ids.delete(workspace)
}

export const isOpenHere = (workspace: string): boolean => ids.has(workspace)
