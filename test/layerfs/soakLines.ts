/** What a process of the soak says, one line of JSON each; free of any test runner. */

/** A call is about to be made, was answered, or ended in a typed error. */
export interface SoakLine {
  readonly ready?: true
  readonly starts?: string
  readonly operationId?: string
  /** A commit that the answer named. */
  readonly commit?: string
  /** The commit that the operation id stands for from now on. */
  readonly recorded?: string
  /** Where the branch's head was left. */
  readonly head?: string
  /** A file of the commit, and its content. */
  readonly path?: string
  readonly digest?: string
  /** A branch that was made. */
  readonly branch?: string
  /** A branch that a recovery made. */
  readonly recovered?: string
  /** The root of an import. */
  readonly root?: string
  readonly compacted?: number
  readonly error?: string
}
