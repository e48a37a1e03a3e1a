/**
 * A project that an agent broke somewhere in twenty calls, and the way back.
 * Promise: each call is one commit that names it; the call that broke the test is found by blame, through two renames and a line that was
 * written again since, and proved: the test passes in a fork of the state before it; a run that was killed goes on where it was.
 * Rules: L3, L7, L2, C25.
 */
import { join } from "node:path"
import { type BranchInfo, type CommitInfo, type Coppice, open } from "../../src/promise.ts"
import { better, type Step, story } from "./story.ts"

export interface Suspect {
  readonly call: string
  readonly agent: string
  readonly message: string
  /** The line of the broken function as it is now, and where the call wrote it. */
  readonly line: string
  readonly writtenAt: string
  /** What the test says of the state before the call. */
  readonly before: string
}

export interface Found {
  /** How many calls of the story are commits, and how many this run added. */
  readonly calls: number
  readonly added: number
  /** What the project's test says at the end. */
  readonly broken: string
  /** Who wrote the newest line of what is broken, then who wrote what was there before, and so on. */
  readonly suspects: readonly Suspect[]
  /** The call that broke it; null: none of the suspects. */
  readonly culprit: string | null
  /** The branch that works again. */
  readonly works: { readonly branch: string; readonly test: string } | null
  readonly graph: string
  readonly svg: string
}

type Workspaces = Coppice["workspaces"]

const project = join(import.meta.dirname, "project")
const agent = "scripted-agent"
/** Operation ids of this example: repeated after a crash, each names what was done before. */
const once = (name: string): string => `time-machine/${name}`
const callName = (index: number): string => `call-${String(index + 1).padStart(2, "0")}`

/** Runs a command of the agent as one commit, when that commit is not there yet. Tells whether it was made now. */
const callOnce = async (workspaces: Workspaces, branch: BranchInfo, call: string, { says, command }: Step) => {
  if ((await workspaces.findOperation(once(call))).state === "recorded") return false
  const { result } = await workspaces.execOn(branch, command, {
    message: says,
    actor: { call, agent },
    operationId: once(call)
  })
  if (result.exitCode !== 0) throw new Error(`${call} failed: ${result.stderr.text}`)
  return true
}

/** The branch with the twenty calls on it: those that are not there yet are made. */
const playStory = async (workspaces: Workspaces, tell: (text: string) => void) => {
  const base = await workspaces.importDirectory(project, { name: "ledger", operationId: once("import") })
  const work = await workspaces.fork(base, { name: "work", operationId: once("work") })
  // What a killed run left half done is done again from the state before.
  for (const left of await workspaces.left()) {
    if (left.branch === work.id) await workspaces.discardLeft(left.id, "the call is made again")
  }
  let added = 0
  for (const [index, step] of story.entries()) {
    const call = callName(index)
    if (!(await callOnce(workspaces, work, call, step))) continue
    added += 1
    tell(`${call} ${step.says}`)
  }
  return { work, added }
}

/** The last line that the project's test prints at a state. A fork of its own, so that nothing of the run is seen elsewhere. */
const testAt = async (workspaces: Workspaces, commit: string, name: string) => {
  const fork = await workspaces.fork(commit, { name, operationId: once(`test ${commit}`) })
  const { result } = await workspaces.execOn(fork, ["node", "test.mjs"], { actor: { call: "test" } })
  return { branch: fork, passed: result.exitCode === 0, said: result.stdout.text.trim() }
}

/** The newest line of the function that the test names, in a state, with the commit that wrote it; null when all came with the import. */
const newestLine = async (workspaces: Workspaces, state: string, name: string) => {
  const { matches } = await workspaces.grepAt(state, new RegExp(`export const ${name} `), { glob: "**/*.mjs" })
  const start = matches[0]
  if (start === undefined) return null
  const page = await workspaces.blame(state, start.path)
  const from = start.line - 1
  const length = page.lines.slice(from).findIndex(({ text }) => text.startsWith("}"))
  const [newest] = page.lines
    .slice(from, from + Math.max(length, 0) + 1)
    .map((line) => ({ line, commit: page.commits[line.commit] as CommitInfo }))
    .toSorted((a, b) => b.commit.at - a.commit.at)
  // What came with the import was right, or the test would never have passed.
  if (newest === undefined || newest.commit.parent === null) return null
  return { ...newest, before: newest.commit.parent, place: `${start.path}:${start.line}` }
}

/** Plays the story in the store at `store`, finds the call that broke the test, and forks the state before it. */
export const timeMachine = async (store: string, tell: (text: string) => void): Promise<Found> => {
  const coppice = await open({ preset: "standard", store })
  try {
    const { workspaces } = coppice
    const { work, added } = await playStory(workspaces, tell)
    const { head } = await workspaces.branch(work.id)
    const now = await testAt(workspaces, head, "test of the end")
    tell(`test: ${now.said}`)
    const name = now.said.split(" ")[1] ?? ""
    const told: Suspect[] = []
    let works: Found["works"] = null
    let culprit: string | null = null
    let state = head
    while (works === null) {
      const found = await newestLine(workspaces, state, name)
      if (found === null) break
      const { line, commit, before } = found
      const { call = "", agent: by = "" } = commit.actor
      const test = await testAt(workspaces, before, `before ${call}`)
      tell(`${call} wrote \`${line.text.trim()}\`; before it: ${test.said}`)
      told.push({
        call,
        agent: by,
        message: commit.message,
        line: line.text.trim(),
        writtenAt: `${line.original.path}:${line.original.line}`,
        before: test.said
      })
      // It was broken before: whoever wrote the lines that this call found there comes next.
      state = before
      if (!test.passed) continue
      culprit = call
      const again = await workspaces.rewind(work, { to: before, name: "works again", operationId: once("works again") })
      await callOnce(workspaces, again, callName(story.length), better)
      const { result } = await workspaces.execOn(again, ["node", "test.mjs"], { actor: { call: "test" } })
      works = { branch: again.id, test: result.stdout.text.trim() }
    }
    const { commits } = await workspaces.log(work)
    return {
      calls: commits.filter(({ actor }) => actor.agent === agent).length,
      added,
      broken: now.said,
      suspects: told,
      culprit,
      works,
      graph: await workspaces.graph(work, { limit: 100 }),
      svg: await workspaces.graph(work, { limit: 100, as: "svg" })
    }
  } finally {
    await coppice.close()
  }
}
