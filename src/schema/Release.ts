import manifest from "../../package.json" with { type: "json" }

/** This release's version, from the package manifest. */
export const version: string = manifest.version
