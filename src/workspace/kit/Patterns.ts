/**
 * Patterns of questions about a state, checked. Promise: what is no pattern is `QueryInvalid`. Rules: W3, L3.
 */
import type { TreePath } from "../../base/PathBytes.ts"
import { compileGlob } from "./Glob.ts"
import { lineExpression } from "./Grep.ts"
import { invalid, isText } from "./Invalid.ts"

export const globOf = (pattern: unknown): ((path: TreePath) => boolean) => {
  if (!isText(pattern)) throw invalid("pattern")
  try {
    return compileGlob(pattern)
  } catch {
    throw invalid("pattern")
  }
}

export const expressionOf = (pattern: unknown): RegExp => {
  if (!(pattern instanceof RegExp)) throw invalid("pattern")
  return lineExpression(pattern)
}

/** Where a search stands: behind this line of this file of a commit. */
interface PlaceFound {
  readonly commit: string
  readonly path: TreePath
  readonly line: number
}
export const isPlaceFound = (at: unknown): at is PlaceFound =>
  typeof at === "object" &&
  at !== null &&
  isText((at as PlaceFound).commit) &&
  isText((at as PlaceFound).path) &&
  Number.isSafeInteger((at as PlaceFound).line)
