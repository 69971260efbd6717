/** The files of ops, by the programs that read them. */
import { execFileSync } from "node:child_process"
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import { expect } from "vitest"
import { startUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { root } from "../world/Fleet.ts"
import { waitFor } from "../world/Waiting.ts"
import { temporaryFolder } from "../world/SqliteTemplate.ts"
import { it } from "../world/Test.ts"
import { background, interrupt, required, scripts } from "./Shell.ts"

const env = { PATH: `${process.env.PATH}:/usr/sbin` }

it.scoped("The alert rules fire as Prometheus evaluates them, and it reads its configuration", function* () {
  execFileSync("promtool", ["test", "rules", "ops/alerts.test.yml"], { cwd: root, stdio: "pipe" })
  const file = join(yield* temporaryFolder, "prometheus.yml")
  const [example = ""] = scripts("observability.md: Prometheus and Grafana", "yaml")
  writeFileSync(file, example.replace("/path/to", root))
  execFileSync("promtool", ["check", "config", file], { stdio: "pipe" })
})

it("The systemd units are correct and at most exposed by 1.5 of 10, as systemd counts", () => {
  const folder = join(root, "ops/systemd")
  const services = ["music-backend.service", "music-backend-backup.service"].map((name) => join(folder, name))
  const units = [...services, join(folder, "music-backend-backup.timer")]
  const verify = `systemd-analyze verify --man=no ${units.join(" ")} 2>&1`
  const complaints = execFileSync("sh", ["-c", verify], { encoding: "utf8" })
  // The folder of the installation is not on this machine; other lines name our files.
  expect(complaints).not.toMatch(/^(?!.*(?:ExecStart|node)).*music-backend/m)
  for (const unit of services)
    execFileSync("systemd-analyze", ["security", "--offline=yes", "--threshold=15", "--no-pager", unit])
})

it.scopedLive("A log that is appended to a file continues at its beginning after its rotation", function* () {
  const folder = yield* temporaryFolder
  const file = join(folder, "server.log")
  const environment = { ...required(yield* startUpstreams(Date.now)) }
  const desk = { folder, environment: { ...environment, MUSIC_DATABASE_PATH: join(folder, "music.sqlite") } }
  const script = `exec '${process.execPath}' '${join(root, "dist/main.js")}' >>'${file}'`
  const server = yield* background(script, desk)
  const log = (name = file) => (existsSync(name) ? readFileSync(name, "utf8") : "")
  const logged = (pattern: RegExp) =>
    Effect.promise(() => waitFor(() => pattern.exec(log()) ?? Promise.reject(new Error(log()))))
  const [, base = ""] = yield* logged(/"Listening".*?"url":"(http:[^"]+)"/)
  const rules = join(folder, "rules")
  const example = readFileSync(join(root, "ops/logrotate/music-backend"), "utf8")
  writeFileSync(rules, example.replace("/var/log/music-backend/*.log", `${folder}/*.log`))
  chmodSync(rules, 0o644)
  const before = log()
  execFileSync("logrotate", ["--force", "--state", join(folder, "state"), rules], { env })
  expect([log(`${file}.1`), log()]).toEqual([before, ""])
  yield* Effect.promise(() => fetch(`${base}/api/v1/version`))
  yield* logged(/"\/api\/v1\/version"/)
  yield* interrupt(server)
  // Every line is whole: no hole of zeros in the place of what was taken away.
  for (const line of log().trimEnd().split("\n")) expect(JSON.parse(line)).toBeTypeOf("object")
})
