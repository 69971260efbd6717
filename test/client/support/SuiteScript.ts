/** The scenarios and the browser bundle as one script for a page. */
import { join } from "node:path"
import { build } from "esbuild"
import { root } from "../../world/Fleet.ts"

/** A script that puts `suite` on the global object: the names of the scenarios, and one that runs them. */
export const suiteScript = async (bundle: string): Promise<string> => {
  const { outputFiles } = await build({
    stdin: {
      contents: `
        import * as Kit from ${JSON.stringify(bundle)}
        import { scenarios } from ${JSON.stringify(join(root, "test/client/suite/Scenarios.ts"))}
        globalThis.suite = {
          names: scenarios.map(({ name }) => name),
          run: (name, bench) => scenarios.find((scenario) => scenario.name === name).run(bench, Kit)
        }
        globalThis.Kit = Kit`,
      resolveDir: root
    },
    bundle: true,
    write: false,
    format: "iife",
    platform: "browser",
    target: "es2022",
    logLevel: "warning"
  })
  return outputFiles[0]?.text ?? ""
}
