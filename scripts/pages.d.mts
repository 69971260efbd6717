export interface PageAssets {
  readonly script: string
  readonly style: string
}

export interface Pages {
  readonly console: PageAssets
  /** What a sandbox adds to the documentation page. */
  readonly tryIt: PageAssets
}

export declare const bundlePages: () => Promise<Pages>
