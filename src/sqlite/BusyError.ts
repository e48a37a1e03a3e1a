/** How SQLite says that a file is locked by somebody else. Rules: L12. */

/** SQLite's primary result codes that mean "try again": SQLITE_BUSY 5 and SQLITE_LOCKED 6 (sqlite.org/rescode.html). */
export const isBusyError = (error: unknown): boolean => {
  const code = (error as { errcode?: number }).errcode
  return typeof code === "number" && ((code & 0xff) === 5 || (code & 0xff) === 6)
}
