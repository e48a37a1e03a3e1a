/** A delivery provider that speaks to the receiver process of `programs/receiver.ts`, over its socket. */
import { spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { request } from "node:http"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type { DeliveryProvider } from "../../src/session/DeliveryDriver.ts"

const ask = (directory: string, method: string, path: string, body = ""): Promise<{ status: number; text: string }> =>
  new Promise((resolve, reject) => {
    const sent = request({ socketPath: join(directory, "socket"), method, path }, (response) => {
      const chunks: Buffer[] = []
      response.on("data", (chunk: Buffer) => chunks.push(chunk))
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }))
    })
    sent.on("error", reject)
    sent.end(body)
  })

export const socketProvider = (
  directory: string,
  { keyed = false, readsBack = true }: { readonly keyed?: boolean; readonly readsBack?: boolean } = {}
): DeliveryProvider => ({
  name: "socket",
  keyed,
  deliver: (message) =>
    Effect.promise(async () => {
      try {
        const { status, text } = await ask(directory, "POST", "/", JSON.stringify(message))
        return status === 200
          ? ({ _tag: "confirmed", receipt: JSON.parse(text).receipt } as const)
          : ({ _tag: "refused", reason: `status ${status}` } as const)
      } catch (error) {
        if (["ENOENT", "ECONNREFUSED"].includes((error as NodeJS.ErrnoException).code ?? "")) {
          return { _tag: "notSent", reason: "nobody listens" } as const
        }
        throw error
      }
    }),
  ...(readsBack
    ? {
        readBack: ({ id }) =>
          Effect.promise(async () =>
            JSON.parse((await ask(directory, "GET", `/${id}`)).text).has === true
              ? ({ _tag: "delivered", receipt: "read-back-1" } as const)
              : ({ _tag: "absent" } as const)
          )
      }
    : {})
})

/** Starts a receiver, whose program is given as one file; resolves once it listens. `stop` ends it. */
export const startReceiver = async (program: string, directory: string, mode: string) => {
  const child = spawn(process.execPath, [program, directory, mode], {
    stdio: ["ignore", "pipe", "inherit"]
  })
  await new Promise<void>((resolve, reject) => {
    child.stdout.once("data", () => resolve())
    child.once("exit", () => reject(new Error("the receiver has ended")))
  })
  return {
    stop: () =>
      new Promise<void>((resolve) => {
        child.once("exit", () => resolve())
        child.kill("SIGKILL")
      })
  }
}

/** What the receiver has logged: one message a line. */
export const received = (directory: string): readonly { readonly id: string; readonly origin: unknown }[] => {
  try {
    return readFileSync(join(directory, "log"), "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line))
  } catch {
    return []
  }
}
