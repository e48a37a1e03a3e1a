/** A number below `below`, from a seed (the constants are those of Numerical Recipes, 3rd ed., 7.1.2). */
export const seededRandom = (seed: number): ((below: number) => number) => {
  let state = seed >>> 0
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}
