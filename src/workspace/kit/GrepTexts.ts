/**
 * Lines of texts that match. Promise: a pattern that is at work for too long is stopped. Rules: W4, L3, L12.
 */
import { show } from "../../base/PathBytes.ts"
import type { GrepMatch } from "../WorkspaceValues.ts"
import type { Bounded } from "./Bounded.ts"
import { grepLines, lineExpression } from "./Grep.ts"
import type { GrepTexts } from "./Questions.ts"

/** Throws `PatternTooSlow`. */
export const grepTexts = (bounded: Bounded, { pattern, texts, limit }: GrepTexts): readonly GrepMatch[] => {
  const expression = lineExpression(pattern)
  const matches: GrepMatch[] = []
  const bytes = texts.reduce((sum, text) => sum + text.bytes.length, 0)
  bounded.run(bytes, (busyWith) => {
    for (const { path, bytes: text, skip = 0 } of texts) {
      if (matches.length >= limit) return
      busyWith(path)
      grepLines(expression, Buffer.from(text.buffer, text.byteOffset, text.length), skip, (line, found) => {
        matches.push({ ...show(path), line, text: found })
        return matches.length < limit
      })
    }
  })
  return matches
}
