import { expect, it } from "vitest"
import { clamp } from "../../src/base/Clamp.ts"

it("G50 a number is taken to the nearest end of its range", () => {
  expect([clamp(-1, 0, 10), clamp(5, 0, 10), clamp(11, 0, 10), clamp(3, 3, 3)]).toEqual([0, 5, 10, 3])
})
