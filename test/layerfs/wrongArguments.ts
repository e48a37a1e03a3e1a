/**
 * Calls with one argument of another kind: a table of valid ones, and what plain JavaScript may put in each place.
 * Promise: says for each call which kinds its places take, by the contract and not by the code that is tested. Rules: V3.
 */

const unreadable = (): never => {
  throw new Error("not to be looked at")
}
const revoked = (): unknown => {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}
const detached = (): Uint8Array => {
  const bytes = new Uint8Array(4)
  structuredClone(bytes.buffer, { transfer: [bytes.buffer] })
  return bytes
}

/** Values of many kinds, by the kinds that they are of. */
const samples: readonly (readonly [kinds: string, value: unknown])[] = [
  ["undefined", undefined],
  ["null", null],
  ["text", "x"],
  ["flag", true],
  ["number", 1],
  ["number fraction", 1.5],
  ["NaN", Number.NaN],
  ["bigint", 7n],
  ["symbol", Symbol("x")],
  ["function", () => 1],
  ["object plain", {}],
  ["object", { x: Symbol("x") }],
  ["object", new Map()],
  ["object date", new Date(0)],
  ["empty", []],
  ["list", [Symbol("x")]],
  ["list", [null]],
  ["list", [() => 1]],
  ["list", Array.from({ length: 2 })],
  ["bytes object", new Uint8Array(1)],
  ["pattern object", /x/],
  ["object plain", Object.create(null)],
  ["object", Promise.resolve()],
  ["hostile", new Proxy({}, { get: unreadable, getPrototypeOf: unreadable, ownKeys: unreadable })],
  ["hostile", new Proxy([], { get: unreadable })],
  ["hostile", revoked()],
  ["hostile", JSON.parse('{ "__proto__": 1 }')],
  ["hostile", JSON.parse('{ "constructor": 1 }')]
]

/** What a place takes: some of the words above, and other values that are wrong there. */
export interface Place {
  /** `0` is the first argument, `1.name` the option of the second. */
  readonly at: string
  readonly takes: readonly string[]
  readonly wrong?: readonly unknown[]
}

export const at = (place: string, takes: string, ...wrong: readonly unknown[]): Place => ({
  at: place,
  takes: takes.split(" "),
  wrong
})

/** Places that many calls have. */
export const inCommit = (n: number): readonly Place[] => [
  at(`${n}`, "undefined object"),
  at(`${n}.message`, "undefined text"),
  at(`${n}.operationId`, "undefined text"),
  ...actorAt(n)
]
const actorAt = (n: number): readonly Place[] => [
  at(
    `${n}.actor`,
    "undefined plain",
    { call: 7 },
    { agent: null },
    { goal: {} },
    { call: "c", other: () => 1 },
    { call: Symbol("x") }
  )
]
export const inMove = (n: number): readonly Place[] => [
  at(`${n}`, ""),
  at(`${n}.expectedHead`, "text"),
  at(`${n}.reason`, "undefined text"),
  at(`${n}.operationId`, "undefined text"),
  ...actorAt(n)
]
export const inPage = (n: number): readonly Place[] => [
  at(`${n}`, "undefined object"),
  at(`${n}.limit`, "undefined number", 0, -1, 1e9, Number.POSITIVE_INFINITY),
  at(`${n}.after`, "undefined")
]
/** What no variable can be called. */
const names = ["", "A=B", "=", "A\0B"]
export const inExec = (n: number): readonly Place[] => [
  at(`${n}`, "undefined object"),
  at(`${n}.cwd`, "undefined text"),
  at(
    `${n}.env`,
    "undefined plain",
    { A: 7 },
    { A: null },
    { A: Symbol("x") },
    ...names.map((name) => ({ [name]: "x" }))
  ),
  at(`${n}.passEnv`, "undefined empty", [7], ...names.map((name) => [name])),
  at(`${n}.stdin`, "undefined text bytes", detached()),
  at(`${n}.onOutput`, "undefined function"),
  at(`${n}.endProcesses`, "undefined flag"),
  at(`${n}.spillDirectory`, "undefined", "/a\0b", "", "/dev/null", "/dev/null/below", "/nonexistent"),
  at(`${n}.gitDefaults`, "undefined flag")
]
export const inOpening = (n: number): readonly Place[] => [
  at(`${n}`, "undefined object"),
  at(`${n}.projection`, "undefined"),
  at(`${n}.mountPath`, "undefined text", "/a\0b"),
  at(`${n}.ownDirs`, "undefined empty", [7], ["a\0b"], ["/a"], [".."], ["a", "b/../../c"], ["src/../**"]),
  at(`${n}.hide`, "undefined empty", [7], ["/a\0b"], ["a"], [""], ["/a", "./b"]),
  at(`${n}.readOnlyPaths`, "undefined empty", [7], ["/a\0b"], ["a"], [""], ["/a", "../b"]),
  at(`${n}.isolation`, "undefined object", { network: "lan" }, { network: null }),
  at(`${n}.residentShell`, "undefined flag"),
  at(`${n}.onProgress`, "undefined function"),
  ...actorAt(n)
]
export const operations: Place = at(
  "1",
  "empty",
  [{}],
  [{ op: "write" }],
  [{ op: "write", path: 7, bytes: "x" }],
  [{ op: "write", path: "x", bytes: 7 }],
  [{ op: "write", path: "x", bytes: "x", more: () => 1 }],
  [{ op: "write", path: "x", bytes: "x", mode: Symbol("x") }],
  [{ op: Symbol("x"), path: "x" }],
  [{ op: "toString", path: "x" }],
  [{ op: "write", path: "x", bytes: detached() }],
  [{ op: "write", path: "kept", bytes: "x" }, null],
  { length: 1, 0: { op: "write", path: "x", bytes: "x" } }
)

/** A call with valid arguments, and its places. */
export interface Row {
  readonly args: readonly unknown[]
  readonly places: readonly Place[]
}

const replaced = (args: readonly unknown[], place: string, value: unknown): readonly unknown[] => {
  const [n, option] = place.split(".") as [string, string?]
  const copy = [...args]
  copy[Number(n)] = option === undefined ? value : { ...(copy[Number(n)] as object | undefined), [option]: value }
  return copy
}

const kindOf = (value: object): string => {
  try {
    return Object.prototype.toString.call(value)
  } catch {
    return "unreadable"
  }
}

/** Every call of a row with one place wrong, and what to call it. `without` values of a kind. */
export const wrongCalls = (
  { args, places }: Row,
  without?: string
): readonly (readonly [what: string, args: readonly unknown[]])[] =>
  places.flatMap(({ at: place, takes, wrong = [] }) => {
    const values = samples.filter(
      ([kinds]) => !kinds.split(" ").some((kind) => takes.includes(kind) || kind === without)
    )
    return [...values.map(([, value]) => value), ...wrong].map((value, n) => {
      const said = typeof value === "object" && value !== null ? `${kindOf(value)} ${n}` : String(value)
      return [`${place} = ${said}`, replaced(args, place, value)] as const
    })
  })

/** What is missing for an error to be one that a caller can act on. */
export const untyped = (error: unknown): string | undefined => {
  const { _tag, code, message, remedy } = (error ?? {}) as Readonly<Record<string, unknown>>
  const isWhole = [_tag, code, message, remedy].every((part) => typeof part === "string" && part !== "")
  return isWhole ? undefined : String((error as { stack?: unknown })?.stack ?? error)
}
