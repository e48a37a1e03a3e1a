/**
 * The messages of the kernel's FUSE protocol, version 7.31 (Linux 5.4), as far as a read-only file system needs them.
 * Promise: every size and offset is that of `include/uapi/linux/fuse.h`; numbers above 2^53 are never made. Rules: 04 "Projections" 2.
 */

/** Operation codes that are answered with more than "not here" (fuse.h, `enum fuse_opcode`). */
export const op = {
  lookup: 1,
  forget: 2,
  getattr: 3,
  readlink: 5,
  open: 14,
  read: 15,
  statfs: 17,
  release: 18,
  init: 26,
  opendir: 27,
  readdir: 28,
  releasedir: 29,
  interrupt: 36,
  destroy: 38,
  ioctl: 39,
  batchForget: 42,
  readdirplus: 44,
  lseek: 46
} as const

/** What would change something: a read-only mount lets none of it through, and none would be done. */
export const writing: ReadonlySet<number> = new Set([
  4, // setattr
  6, // symlink
  8, // mknod
  9, // mkdir
  10, // unlink
  11, // rmdir
  12, // rename
  13, // link
  16, // write
  21, // setxattr
  24, // removexattr
  35, // create
  43, // fallocate
  45, // rename2
  47, // copy_file_range
  51 // tmpfile
])

/** errno(3), Linux. */
export const errno = { ENOENT: 2, EIO: 5, ENXIO: 6, EINVAL: 22, ENOTTY: 25, EROFS: 30, ENOSYS: 38 } as const

export const inHeader = 40
export const outHeader = 16
const entryLength = 128
const attrOutLength = 104
const direntHead = 24

/**
 * Reads are asked for several at once, a name may be looked for while a directory is listed, a listing brings the entries' attributes, link targets are kept, reads
 * may have 1 MiB, and neither files nor directories need an open of their own (fuse.h, FUSE_ASYNC_READ and following).
 */
const features = (1 << 0) | (1 << 13) | (1 << 17) | (1 << 18) | (1 << 22) | (1 << 23) | (1 << 24)
const mostPages = 256

/** Nothing served ever changes. Seconds, for ever in the kernel's reckoning. */
const forEver = 0xffff_ffff

export const read64 = (bytes: Buffer, at: number): number =>
  bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * 0x1_0000_0000

const write64 = (bytes: Buffer, value: number, at: number): void => {
  bytes.writeUInt32LE(value % 0x1_0000_0000, at)
  bytes.writeUInt32LE(Math.floor(value / 0x1_0000_0000), at + 4)
}

export interface Attributes {
  readonly node: number
  readonly inode: number
  readonly size: number
  /** In units of 512 bytes. */
  readonly blocks: number
  readonly mtimeNs: bigint
  /** Type and permission bits. */
  readonly mode: number
  readonly links: number
}

export interface Owner {
  readonly uid: number
  readonly gid: number
}

export const S_IFDIR = 0o040000
export const S_IFREG = 0o100000
export const S_IFLNK = 0o120000

const writeAttributes = (
  bytes: Buffer,
  { inode, size, blocks, mtimeNs, mode, links }: Attributes,
  owner: Owner,
  at: number
) => {
  write64(bytes, inode, at)
  write64(bytes, size, at + 8)
  write64(bytes, blocks, at + 16)
  const seconds = BigInt.asIntN(
    64,
    mtimeNs >= 0n ? mtimeNs / 1_000_000_000n : -((-mtimeNs + 999_999_999n) / 1_000_000_000n)
  )
  const ns = Number(mtimeNs - seconds * 1_000_000_000n)
  // One time for all three: no other is known.
  for (const n of [0, 1, 2]) {
    bytes.writeBigInt64LE(seconds, at + 24 + 8 * n)
    bytes.writeUInt32LE(ns, at + 48 + 4 * n)
  }
  bytes.writeUInt32LE(mode, at + 60)
  bytes.writeUInt32LE(links, at + 64)
  bytes.writeUInt32LE(owner.uid, at + 68)
  bytes.writeUInt32LE(owner.gid, at + 72)
  bytes.writeUInt32LE(0, at + 76)
  bytes.writeUInt32LE(4096, at + 80)
  bytes.writeUInt32LE(0, at + 84)
}

const writeEntry = (bytes: Buffer, attributes: Attributes, owner: Owner, at: number): void => {
  write64(bytes, attributes.node, at)
  write64(bytes, 0, at + 8)
  write64(bytes, forEver, at + 16)
  write64(bytes, forEver, at + 24)
  write64(bytes, 0, at + 32)
  writeAttributes(bytes, attributes, owner, at + 40)
}

/** `struct fuse_entry_out`; undefined says that there is no such name, which is kept too. */
export const entryOut = (attributes: Attributes | undefined, owner: Owner): Buffer => {
  const bytes = Buffer.alloc(entryLength)
  if (attributes === undefined) write64(bytes, forEver, 16)
  else writeEntry(bytes, attributes, owner, 0)
  return bytes
}

/** `struct fuse_attr_out`. */
export const attrOut = (attributes: Attributes, owner: Owner): Buffer => {
  const bytes = Buffer.alloc(attrOutLength)
  write64(bytes, forEver, 0)
  writeAttributes(bytes, attributes, owner, 16)
  return bytes
}

/** `struct fuse_init_out`, for a kernel that speaks 7.31 or newer. */
export const initOut = (request: Buffer): Buffer => {
  const bytes = Buffer.alloc(64)
  bytes.writeUInt32LE(7, 0)
  bytes.writeUInt32LE(31, 4)
  bytes.writeUInt32LE(request.readUInt32LE(inHeader + 8), 8)
  bytes.writeUInt32LE((features & request.readUInt32LE(inHeader + 12)) >>> 0, 12)
  bytes.writeUInt16LE(64, 16)
  bytes.writeUInt16LE(48, 18)
  // Nothing is written, so that the smallest there is will do.
  bytes.writeUInt32LE(4096, 20)
  bytes.writeUInt32LE(1, 24)
  bytes.writeUInt16LE(mostPages, 28)
  return bytes
}

/** `struct fuse_kstatfs`: the numbers of a full disk, on which names may have 255 bytes. */
export const statfsOut = (): Buffer => {
  const bytes = Buffer.alloc(80)
  bytes.writeUInt32LE(4096, 40)
  bytes.writeUInt32LE(255, 44)
  bytes.writeUInt32LE(4096, 48)
  return bytes
}

/** `struct fuse_lseek_out`. */
export const lseekOut = (offset: number): Buffer => {
  const bytes = Buffer.alloc(8)
  write64(bytes, offset, 0)
  return bytes
}

/** `struct fuse_out_header` in front of `length` bytes. */
export const header = (bytes: Buffer, length: number, error: number, request: Buffer): void => {
  bytes.writeUInt32LE(outHeader + length, 0)
  bytes.writeInt32LE(-error, 4)
  request.copy(bytes, 8, 8, 16)
}

export interface Listed {
  /** As the file system keeps it, one character a byte. */
  readonly name: string
  readonly inode: number
  readonly mode: number
  /** Absent: the name alone; the kernel asks when it wants more. */
  readonly attributes?: Attributes | undefined
}

/** The longest answer that the kernel asks for. */
export const longestAnswer = mostPages * 4096
/** One answer is written before the next is begun. */
const listed = Buffer.alloc(longestAnswer)

/** Entries of a directory in one answer, as many as fit. The bytes last until the next one is begun. */
export class Listing {
  readonly #bytes: Buffer
  readonly #plus: boolean
  readonly #owner: Owner
  #at = 0

  constructor(room: number, plus: boolean, owner: Owner) {
    this.#bytes = listed.subarray(0, room)
    this.#plus = plus
    this.#owner = owner
  }

  fits(name: string): boolean {
    return this.#at + this.#length(name) <= this.#bytes.length
  }

  #length(name: string): number {
    return (this.#plus ? entryLength : 0) + ((direntHead + name.length + 7) & ~7)
  }

  /** `next` is where a listing goes on behind this entry. */
  add({ name, inode, mode, attributes }: Listed, next: number): void {
    let at = this.#at
    this.#at += this.#length(name)
    this.#bytes.fill(0, at, this.#at)
    if (this.#plus) {
      if (attributes !== undefined) writeEntry(this.#bytes, attributes, this.#owner, at)
      at += entryLength
    }
    write64(this.#bytes, inode, at)
    write64(this.#bytes, next, at + 8)
    this.#bytes.writeUInt32LE(name.length, at + 16)
    this.#bytes.writeUInt32LE(mode >> 12, at + 20)
    this.#bytes.write(name, at + direntHead, "latin1")
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#at)
  }
}
