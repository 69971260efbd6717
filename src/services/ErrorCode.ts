/** The code of an error of Node or of the system, such as `ECONNRESET`. */
export const errorCode = (error: unknown): string =>
  typeof error === "object" && error !== null && "code" in error && typeof error.code === "string"
    ? error.code
    : "no code"
