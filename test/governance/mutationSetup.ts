/**
 * What mutation testing leaves out: tests that start processes or walk a random history take seconds, and a mutant has to die in
 * less than one. Their rules are held by the tests of one process beside them.
 */
import { beforeEach } from "vitest"

const slow =
  /process|killed|read-only mount|reply lost|dead turn|closed turn gives|any order|random|64 callers|two sessions|refused as expired|300 todos/

beforeEach((context) => context.skip(slow.test(context.task.name)))
