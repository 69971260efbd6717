import { defineConfig } from "vitest/config"

/**
 * Tests that need a Debian, an image, proxies or packed packages: `npm run test:packaging`. `.ci/run` runs them when what they look
 * at has changed.
 */
export default defineConfig({
  test: {
    include: ["test/**/*.packaging.ts"],
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 120_000 } },
    pool: "forks",
    poolOptions: { forks: { minForks: 3, maxForks: 3 } }
  }
})
