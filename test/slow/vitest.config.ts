import { defineConfig } from "vitest/config"

/**
 * Tests that need a Chromium or much time: the documentation page and the client in a browser, the client as an installed package,
 * long simulations. `npm run test:slow` runs them; `npm test` does not.
 */
export default defineConfig({
  test: {
    include: ["test/browser/**/*.test.ts", "test/**/*.slow.ts"],
    globalSetup: ["test/world/PostgresServer.ts"],
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 120_000 } },
    pool: "forks",
    // As in vitest.config.ts.
    poolOptions: { forks: { minForks: 3, maxForks: 3, execArgv: ["--single-threaded-gc"] } }
  }
})
