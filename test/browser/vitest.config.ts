import { defineConfig } from "vitest/config"

/**
 * Tests in a real browser, and of the client as a package that somebody else installs: `npm run test:browser`. They need a
 * Chromium, and time, so `npm test` leaves them out.
 */
export default defineConfig({
  test: {
    include: ["test/browser/**/*.test.ts", "test/client/browser/*.slow.ts"],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    pool: "forks",
    // One browser at a time.
    poolOptions: { forks: { singleFork: true } }
  }
})
