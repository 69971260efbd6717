import { defineConfig } from "vitest/config"
import base from "../../vitest.config.ts"

/** The tests of `npm run mutation`: folders and files that it names, one process at a time, and an end for a test that a mutant lets hang. */
export default defineConfig({
  test: {
    ...base.test,
    include: (process.env.MUTATION_TESTS ?? "test")
      .split(" ")
      .map((place) => (place.endsWith(".ts") ? place : `${place}/**/*.test.ts`)),
    testTimeout: 60_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 30_000 } },
    // The runner asks for threads, in which a test cannot signal its process or change its folder.
    poolMatchGlobs: [["**", "forks"]],
    poolOptions: { forks: { minForks: 1, maxForks: 1 } }
  }
})
