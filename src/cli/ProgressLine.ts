/**
 * Progress for people: one line that is written over, below whatever else is told.
 * Promise: a bar where the total is known; nothing at all when the stream is no terminal, so that logs hold no control
 * characters; what is told in between starts on a clean line. Rules: W14.
 */
import type { Progress } from "../workspace/WorkspaceValues.ts"

/** The part of a stream that is used: `process.stderr` is one. */
export interface Terminal {
  readonly isTTY?: boolean
  readonly columns?: number
  readonly write: (text: string) => unknown
}

export interface ProgressLine {
  /** Shows `text` in place of what was shown before. Texts are cut to the width of the terminal. */
  readonly show: (text: string) => void
  /** Writes a line that stays, also where progress is silent. */
  readonly tell: (line: string) => void
  /** Takes the line away. */
  readonly end: () => void
}

const clear = "\r\u001b[2K"

export const progressLine = (terminal: Terminal): ProgressLine => {
  const shows = terminal.isTTY === true
  let shown = ""
  const end = (): void => {
    if (shown !== "") terminal.write(clear)
    shown = ""
  }
  return {
    show: (text) => {
      // A control character of a file name must not move the cursor.
      const line = text.replaceAll(/\p{Cc}/gu, "?").slice(0, Math.max(10, (terminal.columns ?? 80) - 1))
      if (!shows || line === shown) return
      terminal.write(clear + line)
      shown = line
    },
    tell: (line) => {
      const kept = shown
      end()
      terminal.write(`${line}\n`)
      if (kept !== "") {
        terminal.write(kept)
        shown = kept
      }
    },
    end
  }
}

const width = 24
const count = (value: number): string => value.toLocaleString("en-US")
const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(bytes < 10e6 ? 1 : 0)} MB`

/** A step as a bar: by bytes, by files where no bytes are known, and without one while the total is not known. */
export const bar = ({ phase, files, bytes, totalFiles, totalBytes }: Progress): string => {
  const of = (done: number, total: number | null, shown: (value: number) => string): string =>
    total === null ? shown(done) : `${shown(done)} of ${shown(total)}`
  const share =
    totalBytes !== null && totalBytes > 0
      ? bytes / totalBytes
      : totalFiles !== null && totalFiles > 0
        ? files / totalFiles
        : null
  const full = share === null ? 0 : Math.round(Math.min(1, Math.max(0, share)) * width)
  const drawn = share === null ? "" : `[${"#".repeat(full)}${".".repeat(width - full)}] `
  return `${phase.padEnd(11)} ${drawn}${of(files, totalFiles, count)} files, ${of(bytes, totalBytes, megabytes)}`
}
