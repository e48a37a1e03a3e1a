// The declared validator: a program apart from the agent. Exit code 0 says that the total is right.
import { existsSync, readFileSync } from "node:fs"

const said = existsSync("total.txt") ? readFileSync("total.txt", "utf8").trim() : "nothing"
console.log(`total.txt says ${said}, it should say 57.14`)
process.exitCode = said === "57.14" ? 0 : 1
