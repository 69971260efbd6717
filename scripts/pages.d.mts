export interface PageAssets {
  readonly script: string
  readonly style: string
}

export declare const bundlePage: () => Promise<PageAssets>
