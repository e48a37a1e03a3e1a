/** Why a layer cannot be served, as the caller can act on it. Rules: W2. */
import { Unavailable } from "../../../src/workspace/WorkspaceError.ts"

export const withoutDevice = (why: string): Unavailable =>
  new Unavailable({
    message: "A lazy workspace cannot be had: /dev/fuse does not open.",
    remedy:
      "Load the kernel module fuse and let this user read and write /dev/fuse (chmod 666, in a container: --device /dev/fuse), or open with another projection.",
    what: "lazy",
    missing: [`/dev/fuse (${why})`]
  })

export const notServed = (why: string): Unavailable =>
  new Unavailable({
    message: "A lazy workspace cannot be had: its base could not be served.",
    remedy: "Run `probe` and follow what it names, or open with another projection.",
    what: "lazy",
    missing: [`a mount of /dev/fuse (${why})`]
  })
