import type { Pages } from "../sandbox/Pages.ts"

export declare const bundlePages: () => Promise<Pages>
