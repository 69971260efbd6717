/** Scripts and styles of the sandbox's pages. `scripts/build.mjs` replaces this module by one that holds the bundled texts. */
import { bundlePages } from "../scripts/pages.mjs"

export interface PageAssets {
  readonly script: string
  readonly style: string
}

export interface Pages {
  readonly console: PageAssets
  /** What a sandbox adds to the documentation page. */
  readonly tryIt: PageAssets
}

/** Bundles the sources, in about 100 ms. */
export const loadPages = (): Promise<Pages> => bundlePages()
