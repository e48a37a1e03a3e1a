/**
 * How much an acknowledged write survives.
 * Promise: named in every result that used it; never lowered in silence. Rules: L8, G3.
 */

/** What `synchronous` is set to: `full` survives power loss, `normal` survives a crash of the process, `disposable` neither. */
export type Durability = "full" | "normal" | "disposable"
