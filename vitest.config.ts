import { availableParallelism } from "node:os"
import { defineConfig } from "vitest/config"

/** They count what the whole process did. */
const alone = ["test/observability/Metrics.test.ts"]

const common = {
  // Generous for a busy machine; no test waits this long on purpose.
  testTimeout: 30_000,
  hookTimeout: 60_000,
  pool: "forks" as const
}

export default defineConfig({
  test: {
    // Two at least: half of the time is spent waiting for disks and sockets.
    poolOptions: { forks: { minForks: 1, maxForks: Math.max(2, availableParallelism() - 1) } },
    projects: [
      {
        test: {
          ...common,
          name: "together",
          include: ["test/**/*.test.ts"],
          // They need a browser: `npm run test:browser`.
          exclude: ["test/browser/**", ...alone],
          globalSetup: "test/support/PostgresServer.ts",
          // Loading the modules anew for each file takes as long as the tests.
          poolOptions: { forks: { isolate: false } }
        }
      },
      { test: { ...common, name: "alone", include: alone } }
    ]
  }
})
