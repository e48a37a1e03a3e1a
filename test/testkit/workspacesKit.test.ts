/** The workspace suite over git-worktree, and over the kit with the plainest backend. Rules: K1 to K4. */
import { suiteOver } from "./suiteOver.ts"

await suiteOver("git-worktree", "kit-copies")
