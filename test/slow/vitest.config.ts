import { defineConfig } from "vitest/config"
import fast, { beginWith } from "../../vitest.config.ts"

const longest = [
  "proof/fairness/Fairness",
  "durability/Crashes",
  "proof/matrix/Matrix",
  "browser/ConsolePage",
  "browser/Docs",
  "proof/fuzz/Fuzz",
  "proof/model/Model",
  "client/Chromium",
  "faults/Outages"
]

/** These measure times: of honest requests, and of recoveries. Each plays alone, after all others. */
const alone = ["test/proof/attacks/Attacks.slow.ts", "test/durability/Storm.slow.ts"]

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
    poolOptions: { forks: { ...fast.test?.poolOptions?.forks, minForks: 3, maxForks: 3 } },
    sequence: { sequencer: beginWith(longest) },
    projects: [
      {
        test: {
          ...each,
          name: "slow",
          include: ["test/browser/**/*.test.ts", "test/**/*.slow.ts"],
          exclude: alone
        }
      },
      ...alone.map((file, at) => ({
        test: {
          ...each,
          name: `alone ${at + 1}`,
          include: [file],
          exclude: [],
          sequence: { groupOrder: at + 1 }
        }
      }))
    ]
  }
})
