/** The core suite and the browser bundle as one script, and a stand-in for a page: web globals, none of Node's. */
import { join } from "node:path"
import { createContext, Script } from "node:vm"
import { build } from "esbuild"
import * as IndexedDb from "fake-indexeddb"
import { root } from "../../support/Process.ts"
import type { Bench } from "../suite/Bench.ts"

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

/** Web Locks as far as exclusive ones go (W3C Web Locks API). */
const locks = () => {
  const tails = new Map<string, Promise<unknown>>()
  return {
    request: (name: string, { signal }: { readonly signal: AbortSignal }, run: () => Promise<unknown>) => {
      const before = tails.get(name) ?? Promise.resolve()
      const granted = before.then(() => (signal.aborted ? Promise.reject(signal.reason) : run()))
      tails.set(
        name,
        granted.catch(() => undefined)
      )
      return granted
    }
  }
}

export interface Page {
  readonly names: ReadonlyArray<string>
  readonly run: (name: string, bench: Bench) => Promise<void>
}

/** Whatever a script of today's browsers may expect, on Node's own fetch; `process`, `Buffer` and `require` are not there. */
export const openPage = (script: string): Page => {
  const page = createContext({
    fetch: (...parameters: Parameters<typeof fetch>) => fetch(...parameters),
    Headers,
    Request,
    Response,
    FormData,
    Blob,
    ReadableStream,
    URL,
    URLSearchParams,
    AbortController,
    AbortSignal,
    DOMException,
    TextEncoder,
    TextDecoder,
    crypto,
    performance,
    // A page's timers are numbers.
    setTimeout: (run: () => void, milliseconds: number) => Number(setTimeout(run, milliseconds)),
    clearTimeout,
    setInterval: (run: () => void, milliseconds: number) => Number(setInterval(run, milliseconds)),
    clearInterval,
    queueMicrotask,
    structuredClone,
    ...IndexedDb,
    indexedDB: new IndexedDb.IDBFactory(),
    navigator: { locks: locks() },
    document: {},
    addEventListener: () => undefined,
    removeEventListener: () => undefined
  })
  new Script(script).runInContext(page)
  return page.suite as Page
}
