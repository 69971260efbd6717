/**
 * The image, made by the steps of its recipe in folders, because no container engine is at hand, and run as an engine runs it: in namespaces of
 * its own, as process 1, read-only, without root. Needs root for the mounts. The libraries of this system are the base images.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { cp, mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { promisify } from "node:util"
import { Effect } from "effect"
import { afterAll, beforeAll, describe, expect } from "vitest"
import { startUpstreams, upstreamEnvironment } from "../../sandbox/SimulatedUpstreams.ts"
import { freePort, root } from "../world/Fleet.ts"
import { waitFor } from "../world/Waiting.ts"
import { it } from "../world/Test.ts"
import { collect } from "./Shell.ts"

const run = promisify(execFile)
const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

interface Instruction {
  readonly name: string
  /** The words `--from=build` of COPY. */
  readonly flags: Readonly<Record<string, string>>
  readonly rest: string
}

interface Inside {
  readonly folder: string
  /** Folders of this system that are seen inside, read-only. */
  readonly system: ReadonlyArray<string>
  /** `<from>:<to>`, writable. */
  readonly mounts?: ReadonlyArray<string>
  readonly workingFolder: string
  readonly user?: string
  readonly readOnly?: boolean
  readonly environment?: Readonly<Record<string, string>>
}

/** $1: the folder; $2: "ro" or "rw"; $3: folders of the system; $4: mounts; then the program. Links such as /bin -> usr/bin are made anew. */
const mounts = `
set -e
folder=$1 mode=$2 system=$3 mounts=$4
shift 4
mount --bind "$folder" "$folder"
for name in $system; do
  if [ -L "/$name" ]; then [ -e "$folder/$name" ] || ln -s "$(readlink "/$name")" "$folder/$name"
  elif [ -d "/$name" ]; then mkdir -p "$folder/$name"; mount --rbind "/$name" "$folder/$name"; mount -o remount,bind,ro "$folder/$name"; fi
done
for pair in $mounts; do mkdir -p "$folder/\${pair#*:}"; mount --bind "\${pair%%:*}" "$folder/\${pair#*:}"; done
mkdir -p "$folder/proc" "$folder/dev"
mount -t proc proc "$folder/proc"
for name in null urandom; do touch "$folder/dev/$name"; mount --bind "/dev/$name" "$folder/dev/$name"; done
[ "$mode" = rw ] || mount -o remount,bind,ro "$folder"
exec "$@"`

/** Starts a program inside; it is process 1 there. */
const startInside = (inside: Inside, words: ReadonlyArray<string>): ChildProcess => {
  const [uid = "0", gid = "0"] = (inside.user ?? "0:0").split(":")
  return spawn(
    "unshare",
    [
      ...["--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"],
      ...["sh", "-c", mounts, "sh", inside.folder, inside.readOnly === true ? "ro" : "rw"],
      ...[inside.system.join(" "), (inside.mounts ?? []).join(" ")],
      ...["unshare", "--root", inside.folder, "--wd", inside.workingFolder, "--setgid", gid, "--setuid", uid],
      ...words
    ],
    { env: { PATH: path, ...inside.environment }, stdio: ["ignore", "pipe", "pipe"] }
  )
}

/** The Dockerfile as data: the stages with their instructions. */
const stages: Array<Array<Instruction>> = []
const recipe = readFileSync(join(root, "Dockerfile"), "utf8")
  .replace(/^#.*\n/gm, "")
  .replace(/\\\n\s*/g, " ")
for (const line of recipe.split("\n")) {
  const [, name = "", flags = "", rest = ""] = /^(\w+)\s+((?:--[\w-]+=\S+\s+)*)(.*)$/.exec(line) ?? []
  const pairs = [...flags.matchAll(/--([\w-]+)=(\S+)/g)].map(([, flag, value]) => [flag, value])
  if (name === "FROM") stages.push([])
  else if (name !== "") stages.at(-1)?.push({ name, flags: Object.fromEntries(pairs), rest })
}
const final = stages.at(-1) ?? []
const textOf = (name: string): string => final.find((instruction) => instruction.name === name)?.rest ?? ""
/** The words of an instruction in the form of JSON. */
const wordsOf = (text: string): ReadonlyArray<string> => JSON.parse(text)
const build = { modules: join(root, "node_modules"), system: ["usr", "bin", "lib", "lib64", "sbin"] }

/** Executes the instructions that change files. `npm ci` and the compilation of the addon were done by the installation of this clone. */
const execute = async (instructions: ReadonlyArray<Instruction>, folder: string, from: string) => {
  let workingFolder = "/"
  for (const { flags, name, rest } of instructions) {
    if (name === "WORKDIR") {
      workingFolder = rest
      await mkdir(join(folder, workingFolder), { recursive: true })
    }
    if (name === "COPY") {
      const [target = "", ...sources] = rest.split(" ").toReversed()
      for (const source of sources) {
        const isNode = source === "/usr/local/bin/node"
        const origin =
          flags.from === undefined ? join(root, source) : isNode ? process.execPath : join(from, source)
        const place = join(target.startsWith("/") ? folder : join(folder, workingFolder), target)
        await cp(origin, target.endsWith("/") ? join(place, basename(source)) : place, { recursive: true })
        if (flags.chown !== undefined) await run("chown", ["-R", flags.chown, place])
      }
    }
    if (name === "RUN" && !rest.startsWith("npm ci ")) {
      const mounts = [`${build.modules}:${workingFolder}/node_modules`]
      const inside = { folder, workingFolder, mounts, system: build.system }
      const { code, output } = await collect(startInside(inside, ["sh", "-c", rest]))
      expect(code, output).toBe(0)
    }
  }
}

let scratch: string
let image: string
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "music-image-"))
  const [first = []] = stages
  image = join(scratch, "image")
  await mkdir(join(scratch, "build"))
  await mkdir(image)
  await execute(first, join(scratch, "build"), "")
  await execute(final, image, join(scratch, "build"))
})
afterAll(() => rm(scratch, { recursive: true, force: true }))

describe("The image", () => {
  it.scopedLive(
    "serves read-only and without rights, is healthy, and ends with 0 at SIGTERM as process 1",
    function* () {
      const world = yield* startUpstreams(Date.now)
      const pairs = [...textOf("ENV").matchAll(/(\w+)=(?:"([^"]*)"|(\S+))/g)]
      yield* Effect.promise(async () => {
        const inside: Inside = {
          folder: image,
          system: ["lib", "lib64", "usr/lib", "usr/lib64"],
          workingFolder: textOf("WORKDIR"),
          mounts: [`${join(image, "data")}:/data`],
          user: textOf("USER"),
          readOnly: true,
          environment: {
            ...Object.fromEntries(pairs.map(([, name, quoted, bare]) => [name, quoted ?? bare ?? ""])),
            ...upstreamEnvironment(world),
            MUSIC_BIND: `0.0.0.0:${await freePort()}`
          }
        }
        const check = wordsOf(textOf("HEALTHCHECK").replace(/^.*?CMD /, ""))
        const health = () => collect(startInside(inside, check))
        expect(await health()).toMatchObject({ code: 1 })
        const server = startInside(inside, wordsOf(textOf("CMD")))
        const end = collect(server)
        await waitFor(async () => expect(await health()).toMatchObject({ code: 0 }))
        const [pid = ""] = (await readFile(`/proc/${server.pid}/task/${server.pid}/children`, "utf8")).split(
          " "
        )
        expect(await readFile(`/proc/${pid}/status`, "utf8")).toMatch(/^Uid:\t10001\t10001\t10001\t10001$/m)
        process.kill(Number(pid), "SIGTERM")
        const { code, output } = await end
        expect(output).toContain('"pid":1,')
        expect(code, output).toBe(0)
        expect(await readdir(join(image, "data"))).toEqual(["music.sqlite", "music.sqlite-lock"])
      })
    }
  )
})
