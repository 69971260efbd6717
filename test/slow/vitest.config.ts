import { defineConfig } from "vitest/config"
import fast, { beginWith } from "../../vitest.config.ts"

const longest = [
  "durability/Crashes",
  "proof/fairness/Fairness",
  "faults/Outages",
  "proof/matrix/Matrix",
  "browser/ConsolePage",
  "browser/Docs",
  "proof/fuzz/Fuzz",
  "proof/model/Model",
  "client/Chromium"
]

/** These measure times and memory, and mostly wait. They play after all others. */
const last = ["test/proof/attacks/Attacks.slow.ts", "test/durability/Storm.slow.ts"]

// The run starts what its tests share once, not each project.
const { globalSetup: _, ...shared } = fast.test ?? {}
const each = {
  ...shared,
  testTimeout: 600_000,
  hookTimeout: 600_000,
  // What broke is a list of lines: a failure prints them.
  chaiConfig: { truncateThreshold: 2_000 }
}

/**
 * Tests that need a Chromium or much time: the documentation page and the client in a browser, the client as an installed package,
 * long simulations. `npm run test:slow` runs them; `npm test` does not.
 */
export default defineConfig({
  test: {
    ...fast.test,
    poolOptions: { forks: { ...fast.test?.poolOptions?.forks, minForks: 4, maxForks: 4 } },
    sequence: { sequencer: beginWith(longest) },
    projects: [
      {
        test: {
          ...each,
          name: "slow",
          include: ["test/browser/**/*.test.ts", "test/**/*.slow.ts"],
          exclude: last
        }
      },
      { test: { ...each, name: "last", include: last, exclude: [], sequence: { groupOrder: 1 } } }
    ]
  }
})
