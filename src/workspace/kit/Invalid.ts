/** The refusal of a question about the history that cannot be meant. Promise: names the part, and loads nothing else. Rules: W3, L3. */
import { QueryInvalid } from "../WorkspaceError.ts"

/** The largest page of any call. */
export const largestPage = 10_000

const messages: Readonly<Record<QueryInvalid["field"], readonly [string, string]>> = {
  ref: ["This is no ref, or no list of 1 to 1,000 refs.", "Give the id of a layer, a branch or a commit."],
  path: ["This path cannot lie in a tree.", "Give a path below the root, without `..`."],
  pattern: ["This is no pattern.", "Give a regular expression to grep, a text to glob."],
  limit: [`A page has 1 to ${largestPage} items.`, "Give a whole number in that range, or none."],
  after: [
    "This is not the cursor of a page of this question.",
    "Ask without `after`, and go on with `next` of each page."
  ]
}

export const invalid = (field: QueryInvalid["field"]): QueryInvalid =>
  new QueryInvalid({ message: messages[field][0], remedy: messages[field][1], field })

export const isText = (value: unknown): value is string => typeof value === "string"
