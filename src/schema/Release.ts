import manifest from "../../package.json" with { type: "json" }

/** This release's version, from the package manifest. */
export const version: string = manifest.version

/** What the bundler puts in; absent where the sources run themselves. */
declare const MUSIC_BUILD: string | undefined

/** Tells builds of one version apart: the beginning of the digest of the sources, or `source`. */
export const build: string = typeof MUSIC_BUILD === "string" ? MUSIC_BUILD : "source"
