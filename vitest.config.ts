import { existsSync, statfsSync } from "node:fs"
import { availableParallelism } from "node:os"
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"
// The client that is tested is built on what this makes.
import "./scripts/client/contract.mjs"

/** Four at least: more than half of the time is spent waiting for disks and sockets. */
const forks = Math.max(4, availableParallelism() - 1)

/** Tests stop processes, not machines: their databases need no disk to wait for. */
const memory = "/dev/shm"
const enough = 2 * 1024 ** 3
const hasMemory = () => {
  if (!existsSync(memory)) return false
  const { bavail, bsize } = statfsSync(memory)
  return bavail * bsize > enough
}

// Also of the workers, and of the PostgreSQL of the run.
if (hasMemory()) process.env.TMPDIR = memory

/** A file of a dependency. */
const fileOf = (path: string) => fileURLToPath(new URL(`node_modules/${path}`, import.meta.url))

/** These files begin first, so that no process plays one while the others wait. Times are kept nowhere: they are few. */
export const beginWith = (names: ReadonlyArray<string>) =>
  class extends BaseSequencer {
    override async sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
      const place = ({ moduleId }: TestSpecification): number => {
        const at = names.findIndex((name) => moduleId.includes(`/test/${name}.`))
        return at < 0 ? names.length : at
      }
      return (await super.sort(files)).sort((one, other) => place(one) - place(other))
    }
  }

const longest = [
  "layers/store/postgres/PgStore",
  "layers/delivery/ReportDelivery",
  "faults/Shutdown",
  "faults/OneServer",
  "cli/Check",
  "client/sessions/Sessions",
  "faults/Outages",
  "client/Prove",
  "cli/Interruption",
  "http/Overload"
]

export default defineConfig({
  // The program imports these at each opening of a store and of a server. By their names, each time a fork asks the runner where they are.
  resolve: {
    alias: {
      "@effect/sql-sqlite-node/SqliteClient": fileOf("@effect/sql-sqlite-node/dist/esm/SqliteClient.js"),
      "@effect/platform/HttpApiScalar": fileOf("@effect/platform/dist/esm/HttpApiScalar.js")
    }
  },
  test: {
    include: ["test/**/*.test.ts"],
    // These need a browser: npm run test:slow.
    exclude: ["test/browser/**"],
    globalSetup: ["test/world/PostgresServer.ts"],
    setupFiles: ["test/world/Turns.ts"],
    // For a machine with a quarter of a core; no test waits this long on purpose.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 120_000 } },
    sequence: { sequencer: beginWith(longest) },
    pool: "forks",
    // Loading every module anew for each file takes longer than many of the tests.
    isolate: false,
    // As many from first to last: taking an idle one away early, tinypool can end it twice, and the run with it.
    // The forks fill the processors: threads of each for its garbage cost a sixth of the time, and make no test faster.
    // A small space for what lives shortly costs a quarter: the world of a test is copied from it again and again.
    poolOptions: {
      forks: {
        minForks: forks,
        maxForks: forks,
        execArgv: ["--single-threaded-gc", "--min-semi-space-size=64", "--max-semi-space-size=64"]
      }
    }
  }
})
