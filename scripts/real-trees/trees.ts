/**
 * Trees as people have them, made by the tools that people make them with.
 * Promise: a tree that cannot be made here says why; nothing is made outside of `place`. Rules: W13, C22, C19, C24.
 */
import { execFileSync } from "node:child_process"
import { closeSync, ftruncateSync, mkdirSync, openSync, symlinkSync, writeFileSync, writeSync } from "node:fs"
import { dirname, join } from "node:path"

export interface RealTree {
  readonly name: string
  /** Makes the tree in `at`, which does not exist; whatever the tools need beside it goes below `place`. */
  readonly make: (at: string, place: string) => void
  /** A command inside of a fork at the tree's own path, and what it must print. */
  readonly use: string
  readonly says: RegExp
  /** Changes that one attempt makes. */
  readonly change: string
  /** Run in a fork of the checkpoint. */
  readonly again?: { readonly use: string; readonly says: RegExp; readonly saysNot?: RegExp }
  readonly needs?: () => string | null
}

const run = (cwd: string, command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): string =>
  execFileSync(command, args, {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    maxBuffer: 64 * 1024 * 1024,
    env: { ...process.env, ...env }
  })

const found = (command: string): boolean => {
  try {
    execFileSync(command, ["--version"], { stdio: "ignore" })
    return true
  } catch {
    return false
  }
}

const write = (at: string, files: Readonly<Record<string, string>>): void => {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(at, name)), { recursive: true })
    writeFileSync(join(at, name), text)
  }
}

const git = (cwd: string, ...args: string[]): string =>
  run(cwd, "git", [
    "-c",
    "user.name=t",
    "-c",
    "user.email=t@example.invalid",
    "-c",
    "protocol.file.allow=always",
    // A collection in the background would change the tree while it is compared.
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    ...args
  ])

/** Every tree is a repository too: one of the providers needs one. */
const commitAll = (at: string): void => {
  git(at, "init", "-q", "-b", "main")
  git(at, "add", "-A")
  git(at, "commit", "-qm", "base")
}

/** The cargo behind the shim of rustup, so that nothing of HOME is needed inside. */
const cargo = (): string => {
  try {
    return run("/", "rustup", ["which", "cargo"]).trim()
  } catch {
    return "cargo"
  }
}

const npmProject = (
  name: string,
  dependencies: Readonly<Record<string, string>>
): Readonly<Record<string, string>> => ({
  "package.json": JSON.stringify({ name, private: true, dependencies }),
  ".gitignore": "node_modules\n"
})

const buildCargo = `${cargo()} build --offline 2>&1`

export const realTrees: readonly RealTree[] = [
  {
    name: "npm",
    make: (at) => {
      write(at, {
        ...npmProject("of-npm", {
          "react-scripts": "5.0.1",
          "webpack-dev-server": "4.15.2",
          typescript: "5.9.2",
          eslint: "8.57.1"
        }),
        "a.ts": "export const a: number = 1\n"
      })
      run(at, "npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--legacy-peer-deps"])
      commitAll(at)
    },
    use: "node_modules/.bin/tsc --noEmit --strict a.ts && ls node_modules | wc -l && git status --short",
    says: /^\s*(\d{3,4})\s*$/,
    change:
      "rm -rf node_modules/eslint && mv node_modules/typescript node_modules/typescript-away && echo x >> package.json",
    again: {
      use: "ls -d node_modules/eslint 2>&1; ls node_modules/typescript-away/package.json",
      says: /No such file[^]*package\.json/
    }
  },
  {
    name: "pnpm",
    make: (at, place) => {
      write(at, npmProject("of-pnpm", { webpack: "5.101.3", vite: "6.3.5", eslint: "9.34.0", typescript: "5.9.2" }))
      const env = { XDG_DATA_HOME: join(place, "data"), XDG_CACHE_HOME: join(place, "cache"), CI: "1" }
      const options = [
        "--store-dir",
        join(place, "pnpm-store"),
        "--package-import-method",
        "hardlink",
        "--ignore-scripts"
      ]
      run(at, "npx", ["-y", "pnpm@9.15.9", "install", ...options], env)
      write(at, { "a.ts": "export const a: number = 1\n" })
      commitAll(at)
    },
    use: "node_modules/.bin/tsc --version && node -e \"console.log(require('webpack/package.json').version)\"",
    says: /^5\.101\.3$/m,
    change: "echo '// x' >> node_modules/typescript/package.json.note && rm node_modules/vite",
    again: { use: "ls node_modules/typescript/package.json.note", says: /note/ }
  },
  {
    name: "venv",
    needs: () => (found("python3") ? null : "python3 is not installed"),
    make: (at) => {
      mkdirSync(at)
      run(at, "python3", ["-m", "venv", "--copies", "venv"])
      write(at, { "main.py": "import pip, sys\nprint('pip', pip.__version__, sys.prefix)\n", ".gitignore": "venv\n" })
      commitAll(at)
    },
    // A script of a virtual environment names the path it was made at: elsewhere only the interpreter runs, as the import says.
    use: "venv/bin/python main.py && (venv/bin/pip --version 2>/dev/null || venv/bin/python -m pip --version)",
    says: /^pip \d+[^]*pip \d+/,
    change:
      "venv/bin/python -c \"import site,os; open(os.path.join(site.getsitepackages()[0],'mine.py'),'w').write('n = 7')\"",
    again: { use: "venv/bin/python -c 'import mine; print(mine.n)'", says: /^7$/m }
  },
  {
    name: "cargo",
    needs: () => (found("cargo") ? null : "cargo is not installed"),
    make: (at) => {
      write(at, {
        "Cargo.toml": '[workspace]\nresolver = "2"\nmembers = ["one", "two", "three"]\n',
        "one/Cargo.toml": '[package]\nname = "one"\nversion = "0.1.0"\nedition = "2021"\n',
        "one/src/lib.rs": "pub fn one() -> u32 { 1 }\n",
        "two/Cargo.toml":
          '[package]\nname = "two"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\none = { path = "../one" }\n',
        "two/src/lib.rs": "pub fn two() -> u32 { one::one() + 1 }\n",
        "three/Cargo.toml":
          '[package]\nname = "three"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\ntwo = { path = "../two" }\n',
        "three/src/main.rs": 'fn main() { println!("{}", two::two() + 1) }\n',
        ".gitignore": "target\n"
      })
      run(at, "sh", ["-c", buildCargo])
      commitAll(at)
    },
    // By its times: what was built is not built again.
    use: `${buildCargo} && target/debug/three`,
    says: /^(?![^]*Compiling)[^]*Finished[^]*\n3\n/,
    change: `echo 'pub fn more() {}' >> two/src/lib.rs && ${buildCargo}`,
    again: { use: `${buildCargo} && target/debug/three`, says: /Finished[^]*\n3\n/, saysNot: /Compiling/ }
  },
  {
    name: "submodules",
    make: (at, place) => {
      const other = join(place, "other")
      write(other, { lib: "1\n" })
      commitAll(other)
      write(at, { a: "a\n", ".gitignore": "nested\n" })
      git(at, "init", "-q", "-b", "main")
      git(at, "submodule", "--quiet", "add", other, "modules/other")
      git(at, "add", "-A")
      git(at, "commit", "-qm", "base")
      write(join(at, "nested"), { b: "b\n" })
      commitAll(join(at, "nested"))
    },
    use: "git status --short && git -C nested status --short && git submodule status && git fsck 2>&1 | tail -1",
    says: /^ [0-9a-f]{40} modules\/other/m,
    change:
      "echo c > c && git add c && git -c user.name=t -c user.email=t@example.invalid commit -qm c && echo d >> modules/other/lib && echo e > nested/e",
    again: {
      use: "git log --oneline | wc -l && git status --short && git -C nested status --short",
      says: /^2\n[^]*modules\/other[^]*e/
    }
  },
  {
    name: "small-files",
    make: (at) => {
      for (let directory = 0; directory < 1000; directory += 1) {
        const below = join(at, `d${directory % 10}`, `e${directory}`)
        mkdirSync(below, { recursive: true })
        for (let file = 0; file < 100; file += 1) writeFileSync(join(below, `f${file}`), `${directory} ${file}\n`)
      }
      commitAll(at)
    },
    use: "find . -path ./.git -prune -o -type f -print | wc -l",
    says: /^100000$/m,
    change: "echo changed > d1/e1/f1 && rm -r d2/e2 && mkdir d3/new && echo n > d3/new/n",
    again: { use: "cat d1/e1/f1 d3/new/n; ls d2/e2 2>&1", says: /changed\nn\n[^]*No such file/ }
  },
  {
    name: "sparse",
    make: (at) => {
      mkdirSync(at)
      const file = openSync(join(at, "disk.img"), "w")
      ftruncateSync(file, 4 * 1024 ** 3)
      closeSync(file)
      const some = openSync(join(at, "some.img"), "w")
      writeSync(some, "begin")
      writeSync(some, "end", 256 * 1024 * 1024 - 3)
      closeSync(some)
      symlinkSync("disk.img", join(at, "link"))
      write(at, { ".gitignore": "*.img\n" })
      commitAll(at)
    },
    use: "stat -c '%s %b' disk.img && tail -c 3 some.img",
    says: /^4294967296 [0-9]\n?[^]*end/,
    change: "printf x | dd of=disk.img bs=1 seek=3000000000 conv=notrunc status=none && du -k disk.img | cut -f1",
    again: {
      use: "dd if=disk.img bs=1 skip=3000000000 count=1 status=none && stat -c %s disk.img",
      says: /^x4294967296/
    }
  }
]
