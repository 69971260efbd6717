/** What a sandbox adds to the documentation page: each call can be sent from it. */
import type { DocsAddition } from "../src/http/docs/DocsAddition.ts"
import type { PageAssets } from "./Pages.ts"

/** `consoleOrigin` is the origin of the console's server, which mints tokens for the page. */
export const makeDocsAddition = (tryIt: PageAssets, consoleOrigin: string): DocsAddition => ({
  script: `const sandboxConsole = ${JSON.stringify(consoleOrigin)}\n${tryIt.script}`,
  style: tryIt.style,
  connectSources: ["'self'", consoleOrigin]
})
