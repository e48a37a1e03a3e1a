/**
 * Lines of an open tree that match, found in a thread of the store's.
 * Promise: in byte order of the paths; a file of any size is searched, in parts; binary files, and those that this user may not read, have no
 * lines; memory is bounded. Rules: W4, W21, L3.
 */
import * as fs from "node:fs"
import { promisify } from "node:util"
import { toBytes, type TreePath } from "../../base/PathBytes.ts"
import { PathError } from "../WorkspaceError.ts"
import type { GrepMatch } from "../WorkspaceProvider.ts"
import type { Beneath } from "./Beneath.ts"
import { openToRead, walk } from "./DirectCalls.ts"
import { compileGlob } from "./Glob.ts"
import { isBinary } from "./Grep.ts"
import { partBytes, partsOf } from "./GrepParts.ts"
import type { StorePort } from "./StorePort.ts"

const readWhole = promisify(fs.readFile) as (descriptor: number) => Promise<Buffer>

/** Files of which the lines are given to the thread at once, and their bytes. */
const textsAtOnce = 200
const textBytesAtOnce = 1024 * 1024

/** Undefined for one that is gone by now, is no file any more, or may not be read. */
const openText = (tree: Beneath, path: TreePath): number | undefined => {
  try {
    return openToRead(tree, toBytes(path))
  } catch (error) {
    if (error instanceof PathError) return undefined
    throw error
  }
}

/** Rejects with `PatternTooSlow`, Node's own errors, and whatever the store's thread says. */
export const grepOpen = async (
  tree: Beneath,
  grepTexts: StorePort["grepTexts"],
  pattern: RegExp,
  options: { readonly glob?: string; readonly limit?: number }
): Promise<GrepMatch[]> => {
  const wanted = options.glob === undefined ? () => true : compileGlob(options.glob)
  const limit = options.limit ?? Number.POSITIVE_INFINITY
  const paths: TreePath[] = []
  await walk(tree, (path, stat) => {
    if (stat.isFile() && wanted(path)) paths.push(path)
  })
  const matches: GrepMatch[] = []
  let texts: { readonly path: TreePath; readonly bytes: Buffer }[] = []
  let bytesOfTexts = 0
  const search = async (): Promise<void> => {
    const rest = limit - matches.length
    if (texts.length > 0 && rest > 0) matches.push(...(await grepTexts({ pattern, texts, limit: rest })))
    texts = []
    bytesOfTexts = 0
  }
  const searchParts = async (path: TreePath, descriptor: number): Promise<void> => {
    await search()
    for await (const { bytes, before } of partsOf(descriptor)) {
      const rest = limit - matches.length
      if (rest <= 0 || (before === 0 && isBinary(bytes))) return
      const found = await grepTexts({ pattern, texts: [{ path, bytes }], limit: rest })
      for (const match of found) matches.push({ ...match, line: match.line + before })
    }
  }
  for (const path of paths.sort()) {
    if (matches.length >= limit) break
    const descriptor = openText(tree, path)
    if (descriptor === undefined) continue
    try {
      if (fs.fstatSync(descriptor).size > partBytes) {
        await searchParts(path, descriptor)
        continue
      }
      const bytes = await readWhole(descriptor)
      if (isBinary(bytes)) continue
      texts.push({ path, bytes })
      bytesOfTexts += bytes.length
    } finally {
      fs.closeSync(descriptor)
    }
    if (texts.length >= textsAtOnce || bytesOfTexts >= textBytesAtOnce) await search()
  }
  await search()
  return matches
}
