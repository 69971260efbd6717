import { relative } from "node:path"
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"
import fast from "../../vitest.config.ts"

/** The files that take longest begin first, so that no process plays one while the others wait. Times are kept nowhere: these are few. */
const longest = [
  "durability/Crashes",
  "proof/fairness/Fairness",
  "proof/matrix/Matrix",
  "browser/ConsolePage",
  "browser/Docs",
  "proof/fuzz/Fuzz",
  "proof/model/Model",
  // It compares the times of honest requests: not beside the processes of the crashes.
  "proof/attacks/Attacks",
  "client/Chromium",
  "faults/Outages"
]

class LongestFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
    const place = ({ moduleId }: TestSpecification): number => {
      const at = longest.findIndex((name) =>
        relative(import.meta.dirname, moduleId).startsWith(`../${name}.`)
      )
      return at < 0 ? longest.length : at
    }
    return [...files].sort((one, other) => place(one) - place(other))
  }
}

/**
 * Tests that need a Chromium or much time: the documentation page and the client in a browser, the client as an installed package,
 * long simulations. `npm run test:slow` runs them; `npm test` does not.
 */
export default defineConfig({
  test: {
    ...fast.test,
    include: ["test/browser/**/*.test.ts", "test/**/*.slow.ts"],
    exclude: [],
    testTimeout: 600_000,
    hookTimeout: 600_000,
    poolOptions: { forks: { ...fast.test?.poolOptions?.forks, minForks: 3, maxForks: 3 } },
    sequence: { sequencer: LongestFirst }
  }
})
