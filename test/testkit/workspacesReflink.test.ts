/** The workspace suite over reflink, on btrfs and on XFS. Rules: K1 to K4, RL1. */
import { suiteOver } from "./suiteOver.ts"

await suiteOver("reflink-btrfs", "reflink-xfs")
