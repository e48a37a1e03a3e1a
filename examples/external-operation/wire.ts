/**
 * The line between the program and a device: one JSON request and one JSON reply a connection, over loopback.
 * Promise: the line may lose a request, lose a reply or deliver late, when it is told to; the device behind it knows nothing of that.
 * A device is a process of its own, which outlives the program that talks to it, with an append-only log of what it really did.
 */
import { spawn } from "node:child_process"
import { appendFileSync, existsSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { createServer, connect as connectTo } from "node:net"
import { join } from "node:path"
import { setTimeout as wait } from "node:timers/promises"

/** `request`: it never arrives. `reply`: it arrives, and its answer does not. `late`: it arrives when `deliver` is asked for. */
export type Loss = "none" | "request" | "reply" | "late"

export interface Request {
  readonly verb: string
  readonly lose?: Loss
  readonly [field: string]: unknown
}

/** What one process notes about what it did, and nobody else writes. */
export interface Entry {
  readonly what: string
  readonly effect: string
  readonly [field: string]: unknown
}

const logFile = (directory: string, name: string): string => join(directory, `${name}.log`)
const portFile = (directory: string, name: string): string => join(directory, `${name}.port`)

/** The device's own log, oldest first. */
export const readLog = (directory: string, name: string): readonly Entry[] =>
  existsSync(logFile(directory, name))
    ? readFileSync(logFile(directory, name), "utf8")
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as Entry)
    : []

/** Serves a device until it is switched off, or until nobody has called for a minute. */
export const serve = (
  directory: string,
  name: string,
  make: (log: readonly Entry[], note: (entry: Entry) => void) => (request: Request) => object
): void => {
  const device = make(readLog(directory, name), (entry) =>
    appendFileSync(logFile(directory, name), `${JSON.stringify(entry)}\n`)
  )
  const late: Request[] = []
  const server = createServer((socket) => {
    idle.refresh()
    let text = ""
    socket.setEncoding("utf8")
    socket.on("error", () => socket.destroy())
    socket.on("data", (chunk: string) => {
      text += chunk
      if (!text.endsWith("\n")) return
      const request = JSON.parse(text) as Request
      if (request.verb === "off") return void socket.end("{}\n", () => process.exit(0))
      if (request.verb === "deliver") {
        for (const held of late.splice(0)) device(held)
        return void socket.end("{}\n")
      }
      if (request.lose === "late") late.push(request)
      const reply = request.lose === "late" || request.lose === "request" ? undefined : device(request)
      if (reply === undefined || request.lose === "reply") socket.destroy()
      else socket.end(`${JSON.stringify(reply)}\n`)
    })
  })
  const idle = setTimeout(() => process.exit(0), 60_000)
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    if (address === null || typeof address === "string") throw new Error("no port")
    const file = portFile(directory, name)
    writeFileSync(`${file}.${process.pid}`, String(address.port))
    renameSync(`${file}.${process.pid}`, file)
  })
}

/** One request to a port; rejects when no whole reply came back. */
const askPort = (port: number, request: Request): Promise<any> =>
  new Promise((resolve, reject) => {
    const socket = connectTo(port, "127.0.0.1")
    let text = ""
    socket.setEncoding("utf8")
    socket.on("data", (chunk: string) => {
      text += chunk
    })
    socket.on("error", reject)
    socket.on("close", () => (text.endsWith("\n") ? resolve(JSON.parse(text)) : reject(new Error("no reply"))))
    socket.write(`${JSON.stringify(request)}\n`)
  })

export interface Line {
  readonly ask: (request: Request) => Promise<any>
  /** Cuts the line: nothing arrives until it is mended. */
  cut: boolean
}

const portOf = (directory: string, name: string): number => Number(readFileSync(portFile(directory, name), "utf8"))

/** Switches a device off, when it runs. */
export const switchOff = async (directory: string, name: string): Promise<void> => {
  if (existsSync(portFile(directory, name))) await askPort(portOf(directory, name), { verb: "off" }).catch(() => {})
}

/** A line to a device, which is started when it does not run. */
export const lineTo = async (directory: string, name: string, program: string): Promise<Line> => {
  const answers = () =>
    existsSync(portFile(directory, name))
      ? askPort(portOf(directory, name), { verb: "hello" }).then(
          () => true,
          () => false
        )
      : Promise.resolve(false)
  if (!(await answers())) {
    spawn(process.execPath, [program, directory], { detached: true, stdio: "ignore" }).unref()
    while (!(await answers())) await wait(20)
  }
  const line: Line = {
    cut: false,
    ask: (request) => (line.cut ? Promise.reject(new Error("no line")) : askPort(portOf(directory, name), request))
  }
  return line
}
