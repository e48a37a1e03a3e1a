/** A workspace without network: what cannot be reached, what works, and what is said. Rules: W17. */
import { once } from "node:events"
import * as fs from "node:fs"
import * as net from "node:net"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { atEnd, forkOf, run, shell, sharedGround, using } from "./projFixture.ts"

const shared = sharedGround({ f: "f" })

/** Something of the machine that listens: on its loopback, and on an abstract socket. */
const listening = async (at: net.ListenOptions): Promise<net.Server> => {
  const server = net.createServer((socket) => socket.end("hello"))
  atEnd(() => new Promise((resolve) => server.close(resolve)))
  server.listen(at)
  await once(server, "listening")
  return server
}

const program = `require("net").connect(JSON.parse(process.argv[1])).on("error", (e) => console.log(e.code)).on("data", (d) => console.log(String(d)))`
const connect = (at: net.ListenOptions): readonly [string, ...string[]] => [
  process.execPath,
  "-e",
  program,
  JSON.stringify(at)
]

describe.each(["overlay", "copy"] as const)("%s", (projection) => {
  it("W17 without network nothing of the machine or beyond is reached, by commands, started processes and a resident shell; a loopback of its own works", async () => {
    const { provider, commit } = await shared()
    const tcp = {
      host: "127.0.0.1",
      port: ((await listening({ host: "127.0.0.1", port: 0 })).address() as net.AddressInfo).port
    }
    const abstract = { path: `\0coppice-${process.pid}-${projection}` }
    await listening(abstract)
    const hello = async (isolation: "default" | { network: "none" }, residentShell: boolean): Promise<unknown> =>
      using(provider, await forkOf(provider, commit), { projection, isolation, residentShell }, async (workspace) => {
        const answers: string[] = []
        for (const at of [tcp, abstract]) answers.push((await run(workspace.exec(connect(at)))).stdout.text.trim())
        const started = await run(
          Effect.scoped(
            Effect.gen(function* () {
              const process = yield* workspace.start(connect(tcp))
              const parts: Buffer[] = []
              process.stdout.on("data", (part: Buffer) => parts.push(part))
              yield* process.wait
              return Buffer.concat(parts).toString().trim()
            })
          )
        )
        const own = await shell(
          workspace,
          `'${process.execPath}' -e 'const s = require("net").createServer((c) => c.end("own")).listen(0, "127.0.0.1", () => require("net").connect(s.address().port).on("data", (d) => { console.log(String(d)); s.close() }))'`
        )
        const { level, network, protected: shown, reachable } = workspace.isolation
        const says = (lines: readonly string[]): boolean =>
          lines.some((line) => line.startsWith("network and abstract sockets"))
        return [level, network, says(shown), says(reachable), own, ...answers, started]
      })
    expect(await hello("default", false)).toEqual(["enforced", "host", false, true, "own\n", "hello", "hello", "hello"])
    for (const residentShell of [false, true])
      expect(await hello({ network: "none" }, residentShell)).toEqual([
        "enforced",
        "none",
        true,
        false,
        "own\n",
        "ECONNREFUSED",
        "ECONNREFUSED",
        "ECONNREFUSED"
      ])
  })
  it("W17 without network a socket with a path outside the masks, and vsock, are reached, and the read-back says so; one in a hidden place is not", async () => {
    const { provider, commit, root } = await shared()
    const [open, hidden] = ["open", "hidden"].map((name) => join(root, `${projection}-${name}`)) as [string, string]
    for (const place of [open, hidden]) {
      fs.mkdirSync(place)
      await listening({ path: join(place, "s") })
    }
    const options = { projection, isolation: { network: "none" }, hide: [hidden] } as const
    await using(provider, await forkOf(provider, commit), options, async (workspace) => {
      const ask = async (place: string): Promise<string> =>
        (await run(workspace.exec(connect({ path: join(place, "s") })))).stdout.text.trim()
      expect([await ask(open), await ask(hidden)]).toEqual(["hello", expect.stringMatching(/^E/)])
      // AF_VSOCK and SOCK_STREAM, by number.
      const vsock = (await run(workspace.exec(["perl", "-e", "exit !socket($s, 40, 1, 0)"]))).exitCode === 0
      const { reachable } = workspace.isolation
      const said = (what: string): boolean => reachable.some((line) => line.startsWith(what))
      expect([said("UNIX sockets with a path"), vsock && !said("vsock")]).toEqual([true, false])
    })
  })
})
