/** The PATH that work on a repository gets. Rules: W4, W20. */
import { describe, expect, it } from "vitest"
import { childEnvironment } from "../../src/base/ChildEnvironment.ts"
import { machinePath } from "../../src/base/MachinePath.ts"

const npm = "/app/node_modules/.bin:/node_modules/.bin:/opt/npm/node_modules/@npmcli/run-script/lib/node-gyp-bin"
const machine = "/home/me/bin:/home/me/project/node_modules/.bin:/usr/bin:/bin"

describe("machinePath", () => {
  it("W4 W20 what npm put in front of the PATH of the program that it started is taken away, and nothing else", () => {
    const started = { npm_execpath: "/opt/npm/bin/npm-cli.js" }
    expect(machinePath({ ...started, PATH: `${npm}:${machine}` })).toBe(machine)
    expect(machinePath({ ...started, PATH: machine })).toBe(machine)
    expect(machinePath({ ...started, PATH: npm })).toBe("/usr/local/bin:/usr/bin:/bin")
    // Nobody was started by npm: the front is the user's own.
    expect(machinePath({ PATH: `${npm}:${machine}` })).toBe(`${npm}:${machine}`)
    expect(machinePath(started)).toBeUndefined()
  })

  it("W4 a child gets the machine's PATH, and the host's own when it is passed by name or given", () => {
    const source = { npm_execpath: "x", PATH: `${npm}:/usr/bin`, SECRET: "s" }
    expect(childEnvironment(source)["PATH"]).toBe("/usr/bin")
    expect(childEnvironment(source, ["PATH"])["PATH"]).toBe(`${npm}:/usr/bin`)
    expect(childEnvironment(source, [], { PATH: "/given" })["PATH"]).toBe("/given")
  })
})
