/** Scripts and styles of the sandbox's pages. `scripts/build.mjs` replaces this module by one that holds the bundled texts. */
import { bundlePages, type PageAssets, type Pages } from "../scripts/pages.mjs"

export type { PageAssets }

/** Bundles the sources, in about 100 ms. */
export const loadPages = (): Promise<Pages> => bundlePages()
