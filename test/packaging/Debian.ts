/**
 * A fresh Debian 13 that runs its own systemd as process 1, in namespaces of its own. Needs root, mmdebstrap and a Debian mirror.
 * It has a loopback of its own and no other network; `apt-get` and `npm` of an operator's shell alone use the network of this machine.
 */
import { type ChildProcess, execFile, spawn, type SpawnOptions } from "node:child_process"
import { once } from "node:events"
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, rmdir, statfs, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Readable } from "node:stream"
import { promisify } from "node:util"
import { root } from "../world/Fleet.ts"
import { waitFor } from "../world/Waiting.ts"
import { collect } from "./Shell.ts"

const run = promisify(execFile)
const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
const gibibyte = 2 ** 30

export interface Debian {
  /** Runs commands as root in a shell; fails with the output of all of them when one fails. */
  readonly operate: (script: string, environment?: Readonly<Record<string, string>>) => Promise<string>
  /** Starts a program of this machine that sees only the loopback inside, and ends with the system; returns its output. */
  readonly beside: (words: ReadonlyArray<string>) => Readable
  /** Ends all processes inside and removes every file. */
  readonly remove: () => Promise<void>
}

/** $1: the cgroup; $2: the root folder; $3: a folder that is seen inside as /srv, read-only. Process 1 is the system's own init. */
const boot = `
set -e
echo $$ > "$1/cgroup.procs"
exec setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --uts --ipc --cgroup --propagation private sh -ec '
  mount --bind "$1" "$1"
  cd "$1"
  mount --bind "$2" srv
  mount -o remount,bind,ro srv
  mount -t proc proc proc
  mount -t sysfs -o ro sysfs sys
  mount -t cgroup2 cgroup2 sys/fs/cgroup
  mount -t tmpfs -o mode=755 tmpfs run
  mount -t tmpfs -o mode=755 tmpfs dev
  mkdir dev/pts dev/shm
  mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
  ln -s pts/ptmx dev/ptmx
  for name in null zero full random urandom tty; do touch dev/$name; mount --bind /dev/$name dev/$name; done
  touch run/uplink
  mount --bind /proc/self/ns/net run/uplink
  pivot_root . .
  umount -l .
  mount --make-rshared /
  exec unshare --net env -i container=test PATH="$PATH" /sbin/init
' sh "$2" "$3"`

const uplink = (program: string) => `#!/bin/sh\nexec nsenter --net=/run/uplink ${program} "$@"\n`

/** The first mirror that this machine itself uses. */
const findMirror = async (): Promise<string> => {
  const { stdout } = await run("apt-get", ["indextargets", "--format", "$(REPO_URI)", "Label: Debian"])
  return stdout.split("\n").find((line) => line.startsWith("http")) ?? "http://deb.debian.org/debian"
}

/** How npm of this machine reaches its registry. */
const npmSettings = async (): Promise<Readonly<Record<string, string>>> => {
  const read = async (name: string) =>
    (await run("npm", ["config", "get", name], { cwd: root })).stdout.trim()
  const proxies = Object.entries(process.env).filter(([name]) => /^(?:https?|no)_proxy$/i.test(name))
  return {
    npm_config_registry: await read("registry"),
    npm_config_cafile: "/opt/uplink/authorities.pem",
    ...Object.fromEntries(proxies.map(([name, value = ""]) => [name, value]))
  }
}

const install = async (folder: string) => {
  const { stdout } = await run("apt-config", ["dump"])
  const options = join(folder, "apt.conf")
  await writeFile(options, stdout.replace(/^(?!Acquire::).*\n/gm, ""))
  const mirror = await findMirror()
  const system = join(folder, "system")
  // Its mounts end with it.
  const namespace = ["--mount", "--propagation", "private"]
  const words = [...namespace, "mmdebstrap", "--variant=minbase", `--aptopt=${options}`]
  const packages = ["--include=systemd,systemd-sysv,dbus", "trixie", system, mirror]
  await run("unshare", [...words, ...packages], { timeout: 600_000 }).catch((error) => {
    throw new Error(
      `Debian 13 cannot be installed from ${mirror}; is it reachable?\n${error.stderr ?? error}`
    )
  })
  await mkdir(join(system, "opt/uplink"))
  const copy = async (from: string, to: string) => writeFile(join(system, to), await readFile(from))
  await copy("/etc/resolv.conf", "etc/resolv.conf")
  await copy("/etc/ssl/certs/ca-certificates.crt", "opt/uplink/authorities.pem")
  for (const program of ["apt-get", "npm"]) {
    const file = join(system, "opt/uplink", program)
    await writeFile(file, uplink(`/usr/bin/${program}`))
    await chmod(file, 0o755)
  }
  return system
}

const makeCgroup = async (): Promise<string> => {
  const mounts = await readFile("/proc/self/mounts", "utf8")
  const [, top] = /^\S+ (\S+) cgroup2 /m.exec(mounts) ?? []
  if (top === undefined) throw new Error("this kernel has no cgroup2 mounted, which systemd needs")
  return mkdtemp(join(top, "music-debian-"))
}

const removeCgroup = async (folder: string): Promise<void> => {
  for (const entry of await readdir(folder, { withFileTypes: true }))
    if (entry.isDirectory()) await removeCgroup(join(folder, entry.name))
  await rmdir(folder)
}

/** Installs and boots it. `shared` is seen inside as /srv, read-only; `hosts` are names that lead to its loopback. */
export const startDebian = async (shared: string, hosts: ReadonlyArray<string>): Promise<Debian> => {
  const { bavail, bsize } = await statfs("/dev/shm")
  const folder = await mkdtemp(join(bavail * bsize > 6 * gibibyte ? "/dev/shm" : tmpdir(), "music-debian-"))
  const cgroup = await makeCgroup()
  const programs = new Set<ChildProcess>()
  const remove = async () => {
    for (const child of programs) child.kill("SIGKILL")
    await Promise.all([...programs].map((child) => child.exitCode ?? child.signalCode ?? once(child, "exit")))
    await waitFor(() => removeCgroup(cgroup))
    await rm(folder, { recursive: true, force: true })
  }
  const keep = (child: ChildProcess) => {
    programs.add(child)
    return child
  }
  try {
    const system = await install(folder)
    await writeFile(join(system, "etc/hosts"), `127.0.0.1 localhost ${hosts.join(" ")}\n::1 localhost\n`)
    const environment: Readonly<Record<string, string>> = {
      PATH: `/opt/uplink:${path}`,
      HOME: "/root",
      DEBIAN_FRONTEND: "noninteractive",
      ...(await npmSettings())
    }
    const piped = { env: { PATH: path }, stdio: ["ignore", "pipe", "pipe"] } satisfies SpawnOptions
    const container = keep(spawn("sh", ["-c", boot, "sh", cgroup, system, shared], piped))
    const ended = collect(container).then(({ output }) =>
      Promise.reject(new Error(`the system ended: ${output}`))
    )
    ended.catch(() => undefined)
    const findInit = async () =>
      (await readFile(`/proc/${container.pid}/task/${container.pid}/children`, "utf8")).trim()
    const into = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
    const operate = async (script: string, more: Readonly<Record<string, string>> = {}) => {
      const variables = Object.entries({ ...environment, ...more }).map(([name, value]) => `${name}=${value}`)
      const words = ["--target", await findInit(), ...into, "env", "-i", ...variables, "sh", "-ec", script]
      const { code, output } = await collect(spawn("nsenter", words, { stdio: ["ignore", "pipe", "pipe"] }))
      if (code !== 0) throw new Error(`exit ${code} of\n${script}\n${output}`)
      return output
    }
    await Promise.race([ended, waitFor(() => operate("systemctl is-active multi-user.target"))])
    const init = await findInit()
    const beside = (words: ReadonlyArray<string>) => {
      const all = ["--pdeathsig", "KILL", "nsenter", "--target", init, "--net", ...words]
      const child = spawn("setpriv", all, { cwd: root, stdio: ["ignore", "pipe", "inherit"] })
      keep(child)
      return child.stdout
    }
    return { operate, beside, remove }
  } catch (error) {
    await remove()
    throw error
  }
}
