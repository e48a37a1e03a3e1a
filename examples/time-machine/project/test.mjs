// The project's own test: prints what failed and exits 1, or prints how much it checked.
import { isThrottled, show, total } from "./index.mjs"

const entries = [{ amount: "40.00" }, { amount: "12.50" }, { amount: "4.64" }]
const checks = {
  total: () => total(entries) === 5714,
  show: () => show(5714) === "57.14",
  isThrottled: () => isThrottled(entries, "57.14") && !isThrottled(entries, "57.15")
}
const failed = Object.keys(checks).filter((name) => !checks[name]())
console.log(failed.length === 0 ? `${Object.keys(checks).length} checks passed` : `failed: ${failed.join(" ")}`)
process.exitCode = failed.length === 0 ? 0 : 1
