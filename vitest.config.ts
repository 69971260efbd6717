import { availableParallelism } from "node:os"
import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // They need a browser: npm run test:browser.
    exclude: ["test/browser/**"],
    globalSetup: ["test/support/PostgresServer.ts"],
    // Generous for a busy machine; no test waits this long on purpose.
    testTimeout: 30_000,
    hookTimeout: 60_000,
    pool: "forks",
    // Loading every module anew for each file takes longer than many of the tests.
    isolate: false,
    // Two at least: half of the time is spent waiting for disks and sockets.
    poolOptions: { forks: { minForks: 1, maxForks: Math.max(2, availableParallelism() - 1) } }
  }
})
