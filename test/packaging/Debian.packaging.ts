/**
 * docs/operations.md, "On Debian with systemd", to the letter: all its commands in their order on a fresh Debian 13. What differs from an operator's machine:
 *
 * - The certificates are of an authority of this test. For a name below localhost Caddy uses its own authority in the place of Let's Encrypt, by itself;
 *   the key of that authority is in its place before, so that the system trusts it as it trusts public ones.
 * - IAM and Ting are the simulators of the sandbox, on the machine's loopback.
 * - The SQLite addon is compiled without optimization, which takes a fifth of the time.
 * - The repository has one commit, with the files of this clone.
 */
import { execFileSync } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import { version } from "../../src/schema/Release.ts"
import { root } from "../world/Fleet.ts"
import { waitFor } from "../world/Waiting.ts"
import { type Debian, startDebian } from "./Debian.ts"
import { scripts } from "./Shell.ts"

const blocks = scripts("operations.md: On Debian with systemd")
const [install = "", prepare = "", start = "", caddy = "", nginx = "", upgrade = "", rollBack = ""] = blocks
const name = "music.localhost"
const clone = "/usr/local/src/music-backend"
vi.setConfig({ testTimeout: 30 * 60_000, hookTimeout: 15 * 60_000 })

/** $1: this clone; $2: a repository with its files, also those that are not committed yet. */
const makeRepository = `
set -e
git init --quiet "$2"
cd "$1"
git ls-files -z --cached --others --exclude-standard | xargs -0 sh -c 'for file; do [ ! -f "$file" ] || printf "%s\\0" "$file"; done' sh |
  tar --create --null --files-from - | tar --extract --directory "$2"`
const commit = `git add --all && git -c user.name=test -c user.email=test@localhost commit --quiet --message Change`

/** The authority, and a certificate of it for nginx. */
const makeCertificates = `
cd "$1"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=Authority of a test" -days 30 -keyout root.key -out root.crt
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$2" -addext "subjectAltName=DNS:$2" \\
  -addext basicConstraints=critical,CA:FALSE -days 30 -CA root.crt -CAkey root.key -keyout privkey.pem -out fullchain.pem`

let shared: string
let debian: Debian
const operate = (script: string) => debian.operate(script)
const journal = () => operate("journalctl --unit music-backend --output cat --no-pager")
/** A block of the document, in the folder in which the block before it ended. A failure shows the logs of the units. */
const follow = (block: string, more: Readonly<Record<string, string>> = {}) =>
  debian
    .operate(`cd ${clone} 2>/dev/null || cd\n${block}`, {
      REPOSITORY: "/srv/repository",
      NAME: name,
      CFLAGS: "-O0",
      CXXFLAGS: "-O0",
      ...more
    })
    .catch(async (error: Error) => {
      const logs = await operate(
        "journalctl --no-pager --lines 60 --unit music-backend --unit caddy --unit nginx"
      )
      throw new Error(`${error.message}\n${logs}`)
    })
const musicBackend =
  "runuser -u music-backend -- music-backend --env-file /etc/music-backend/music-backend.env"
const messages = async (): Promise<ReadonlyArray<string>> =>
  [...(await operate(`${musicBackend} reports list`)).matchAll(/message-\d/g)].map(([message]) => message)
/** A report through the proxy, of a client that has another address than the proxy; the server logs that address. */
const report = async (message: string, client: string) => {
  await operate(
    `curl --silent --show-error --fail-with-body --ipv4 --interface ${client} https://${name}/api/v1/reports --header 'content-type: application/json' ` +
      `--header 'idempotency-key: ${message}-0000000000000000' --data '{"message":"This is ${message}."}'`
  )
  await waitFor(async () => expect(await journal()).toContain(`"client_address":"${client}"`))
}

beforeAll(async () => {
  shared = mkdtempSync(join(tmpdir(), "music-shared-"))
  execFileSync("sh", ["-c", makeRepository, "sh", root, join(shared, "repository")])
  execFileSync("sh", ["-c", commit], { cwd: join(shared, "repository") })
  execFileSync("sh", ["-ec", makeCertificates, "sh", shared, name], { stdio: "pipe" })
  debian = await startDebian(shared, [name])
})
afterAll(async () => {
  await debian?.remove()
  rmSync(shared, { recursive: true, force: true })
})

describe("The commands of Deploy on a fresh Debian", () => {
  it("install and start a server that passes its check, and that systemd starts again after a kill", async () => {
    expect(blocks).toHaveLength(7)
    await follow(install)
    await follow(prepare)
    const program = [process.execPath, "--import", "tsx", "test/packaging/DebianUpstreams.ts"]
    const [line] = await once(debian.beside(program), "data")
    const settings: Readonly<Record<string, string>> = JSON.parse(String(line))
    const credentials = "/etc/music-backend/credentials"
    await operate(`printf %s '${settings.MUSIC_IAM_APP_SECRET}' > ${credentials}/iam-app-secret
        printf %s '${settings.MUSIC_IAM_WEBHOOK_SECRET}' > ${credentials}/iam-webhook-secret`)
    const file = "/etc/music-backend/music-backend.env"
    await operate(
      `sed -i "s|https://iam.example|${settings.MUSIC_IAM_URL}|; s|https://ting.example|${settings.MUSIC_TING_URL}|" ${file}`
    )
    await operate(`echo MUSIC_LOG_CLIENT_ADDRESS=on >> ${file}`)

    expect(await follow(start)).toMatch(/^PASS +server +runs at /m)
    expect(await operate("systemctl status --no-pager music-backend")).toContain("active (running)")
    await operate("systemctl kill --signal KILL music-backend")
    await waitFor(async () =>
      expect(await operate("systemctl show --property NRestarts,ActiveState music-backend")).toMatch(
        /NRestarts=1\nActiveState=active/
      )
    )
    await operate("curl --retry 60 --retry-delay 1 --retry-all-errors http://127.0.0.1:8787/readyz")
    await waitFor(async () => expect((await journal()).match(/"Listening"/g)).toHaveLength(2))
  })

  it("put Caddy in front, which ends TLS and passes the address of the client", async () => {
    const authorities = "/var/lib/caddy/.local/share/caddy/pki/authorities/local"
    await operate(`install -D --mode 644 /srv/root.crt /usr/local/share/ca-certificates/test.crt && update-ca-certificates
        runuser -u caddy -- mkdir -p ${authorities}
        install --owner caddy --mode 600 /srv/root.crt /srv/root.key ${authorities}`)
    await follow(caddy)
    await report("message-1", "127.0.0.2")
    expect(await messages()).toEqual(["message-1"])
  })

  it("put nginx in its place", async () => {
    await operate(
      "install -D --mode 600 --target-directory /etc/ssl/music-backend /srv/fullchain.pem /srv/privkey.pem"
    )
    await follow(nginx)
    expect(await operate(`curl --silent --head https://${name}/readyz`)).toMatch(/^server: nginx/im)
    await report("message-2", "127.0.0.3")
  })

  it("back up, upgrade to a new commit, and roll back to the backup", async () => {
    const manifest = join(shared, "repository/package.json")
    writeFileSync(
      manifest,
      readFileSync(manifest, "utf8").replace(`"version": "${version}"`, '"version": "99.0.0"')
    )
    execFileSync("sh", ["-c", commit], { cwd: join(shared, "repository") })
    const runs = async () =>
      (await operate(`curl --silent --fail https://${name}/api/v1/version`)).replace(
        /.*"version":"([^"]+)".*/s,
        "$1"
      )
    const ready = () =>
      operate("curl --silent --retry 60 --retry-delay 1 --retry-all-errors http://127.0.0.1:8787/readyz")
    expect(await runs()).toBe(version)
    await follow(upgrade)
    await ready()
    expect(await runs()).toBe("99.0.0")
    await report("message-3", "127.0.0.4")
    expect((await messages()).toSorted()).toEqual(["message-1", "message-2", "message-3"])
    const [backup = "", ...more] = (await operate("ls /var/lib/music-backend/backups/*")).trim().split("\n")
    expect(more).toEqual([])
    await follow(rollBack, { BACKUP: backup })
    await ready()
    expect(await runs()).toBe(version)
    expect((await messages()).toSorted()).toEqual(["message-1", "message-2"])
    expect(await operate("systemctl is-failed music-backend music-backend-backup || true")).not.toContain(
      "failed"
    )
  })
})
