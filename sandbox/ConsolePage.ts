/** Script and style of the console's page. `scripts/build.mjs` replaces this module by one that holds the bundled texts. */
import { bundlePage, type PageAssets } from "../scripts/pages.mjs"

export type { PageAssets }

/** Bundles the sources, in about 100 ms. */
export const loadPage = (): Promise<PageAssets> => bundlePage()
