/** This package's version; a test compares it with the manifest. */
export const packageVersion = "0.1.0"
