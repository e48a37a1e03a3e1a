import { cents } from "./money.mjs"

export const total = (entries) => entries.reduce((sum, entry) => sum + cents(entry.amount), 0)

export const isThrottled = (entries, limit) => {
  const sum = total(entries)
  return sum >= cents(limit)
}
