/**
 * What mutation testing leaves out: tests that start processes or walk a random history take seconds, and a mutant has to die in
 * less than one. Their rules are held by the tests of one process beside them.
 */
import { beforeEach } from "vitest"

const slow =
  /killed|process left|driving process|clock is earlier|reply lost|dead turn|closed turn gives|read-only mount|64 callers|two sessions|refused as expired|300 todos|random (states|history)|agrees? with a plain model|\[(minimal|standard)\]|worker|never answers|paused or stopped goal nothing is sent|interlock keeps|four processes|two processes|another process|whole process group|ignores its abort|interrupted by the caller|stop is confirmed|provider is acquired|paused between two|request was lost|line cut/

/** The whole name, the groups around it included. */
const nameOf = (task: { readonly name: string; readonly suite?: { readonly name: string } | undefined }): string =>
  `${task.suite?.name ?? ""} ${task.name}`

beforeEach((context) => context.skip(slow.test(nameOf(context.task))))
