/**
 * Failures of session stores and locks, described for people: what happened to which file, whether a retry can help, and what to
 * do. No description holds a credential or a part of a file, so no message of a foreign error is passed on.
 */

/**
 * - `corrupt`: the stored value is no session. A login and a logout replace it.
 * - `no_space`: a full disk, or a quota. A retry helps once space is free.
 * - `permission`: the operating system or the browser refuses access.
 * - `misconfigured`: an option is wrong, or its path cannot be used.
 * - `locked`: another program or call holds the lock, or has replaced the session in the meantime.
 * - `unavailable`: any other failure of the store.
 */
export type StoreFailureReason =
  | "corrupt"
  | "no_space"
  | "permission"
  | "misconfigured"
  | "locked"
  | "unavailable"

/** A failure of a session store or its lock. */
export interface StoreProblem {
  readonly reason: StoreFailureReason
  /** The file or folder, when the store keeps files. */
  readonly path?: string
  /** The system's code or name of the error, for example `ENOSPC` or `QuotaExceededError`. */
  readonly code?: string
  /** Whether the same call can succeed later without a change of program or configuration. */
  readonly retryable: boolean
  /** What happened, with the file and the code when they are known. */
  readonly message: string
  /** What to do next. */
  readonly hint: string
}

interface Row {
  readonly reason: StoreFailureReason
  readonly retryable?: boolean
  readonly hint?: string
}

const defaults: Readonly<Record<StoreFailureReason, Omit<StoreProblem, "reason">>> = {
  corrupt: {
    retryable: false,
    message: "The stored session is corrupt",
    hint: "Log in, which replaces it, or log out, which removes it."
  },
  no_space: {
    retryable: true,
    message: "No space is left to store the session",
    hint: "Free some space and retry."
  },
  permission: {
    retryable: false,
    message: "Access to the session store is denied",
    hint: "Let the user of this program read and write the file and its folder, or give another directory."
  },
  misconfigured: {
    retryable: false,
    message: "The place of the session store cannot be used",
    hint: "Give the store another directory, or remove what is in its way."
  },
  locked: {
    retryable: true,
    message: "The wait for the session lock ended: another program or call holds it",
    hint: "Retry after a short pause."
  },
  unavailable: {
    retryable: true,
    message: "The session store failed",
    hint: "Check the store and retry."
  }
}

const noSpace: Row = { reason: "no_space" }
const denied: Row = { reason: "permission" }
const blocked: Row = {
  reason: "permission",
  hint: "The browser blocks storage for this page, for example in a private window: allow it, or use memorySessionStore()."
}
const unusable: Row = { reason: "misconfigured" }
const tooManyFiles: Row = {
  reason: "unavailable",
  hint: "Too many files are open: close some, or raise the limit, and retry."
}
const waitEnded: Row = { reason: "locked" }

/** Rows by the `code` of an error of Node. */
const byCode: ReadonlyMap<string, Row> = new Map([
  ["ENOSPC", noSpace],
  ["EDQUOT", noSpace],
  ["EFBIG", noSpace],
  ["EACCES", denied],
  ["EPERM", denied],
  [
    "EROFS",
    { reason: "permission", hint: "The file system is read-only: give a directory that can be written." }
  ],
  [
    "ENOTDIR",
    {
      reason: "misconfigured",
      hint: "A file is in the place of a folder: remove it, or give another directory."
    }
  ],
  [
    "EISDIR",
    {
      reason: "misconfigured",
      hint: "A folder is in the place of a file: remove it, or give another directory."
    }
  ],
  [
    "EEXIST",
    {
      reason: "misconfigured",
      hint: "A file is in the place of a folder: remove it, or give another directory."
    }
  ],
  ["ELOOP", unusable],
  ["ENAMETOOLONG", unusable],
  ["ENOTSUP", unusable],
  ["ENOSYS", unusable],
  ["ERR_INVALID_ARG_TYPE", unusable],
  ["ERR_INVALID_ARG_VALUE", unusable],
  ["ENOENT", { reason: "unavailable", hint: "The folder is missing or was removed: check it and retry." }],
  ["EMFILE", tooManyFiles],
  ["ENFILE", tooManyFiles],
  ["EIO", { reason: "unavailable", hint: "Check the disk and retry." }]
])

/** Rows by the `name` of an error of a browser or of the language. */
const byName: ReadonlyMap<string, Row> = new Map([
  ["SyntaxError", { reason: "corrupt" }],
  ["QuotaExceededError", noSpace],
  ["SecurityError", blocked],
  ["NotAllowedError", blocked],
  [
    "VersionError",
    {
      reason: "unavailable",
      retryable: false,
      hint: "A newer version of this page has changed the database: reload the page."
    }
  ],
  [
    "NotFoundError",
    {
      reason: "misconfigured",
      hint: "The database belongs to another program: give webSessionStore another database name."
    }
  ],
  [
    "InvalidStateError",
    {
      reason: "unavailable",
      hint: "The browser closed or blocks the database: retry; in a private window use memorySessionStore()."
    }
  ],
  [
    "UnknownError",
    { reason: "unavailable", hint: "The browser cannot use its disk: free some space and retry." }
  ],
  ["AbortError", waitEnded],
  ["TimeoutError", waitEnded]
])

/** Reads a field of any value; a getter or a proxy may fail. */
const field = (value: unknown, name: string): unknown => {
  if (typeof value !== "object" || value === null) return undefined
  try {
    return Reflect.get(value, name)
  } catch {
    return undefined
  }
}

const textField = (value: unknown, name: string): string | undefined => {
  const found = field(value, name)
  return typeof found === "string" ? found : undefined
}

/** A code of the operating system, known or not. */
const isSystemCode = (code: string): boolean => /^E[A-Z0-9]{2,19}$/.test(code) || byCode.has(code)

const isReason = (reason: string | undefined): reason is StoreFailureReason =>
  reason !== undefined && Object.hasOwn(defaults, reason)

const sentence = (text: string, path: string | undefined, code: string | undefined): string =>
  `${text}${path === undefined ? "" : `: ${path}`}${code === undefined ? "" : ` (${code})`}.`

/** The fields of a problem; what is left out follows from the reason. */
export interface StoreProblemInput extends Partial<Omit<StoreProblem, "reason">> {
  readonly reason: StoreFailureReason
  /** The error behind it. Never one that quotes a credential: programs log it. */
  readonly cause?: unknown
}

const complete = (input: StoreProblemInput): StoreProblem => {
  const { code, path, reason } = input
  const standard = defaults[reason]
  return {
    reason,
    ...(path === undefined ? {} : { path }),
    ...(code === undefined ? {} : { code }),
    retryable: input.retryable ?? standard.retryable,
    message: input.message ?? sentence(standard.message, path, code),
    hint:
      input.hint ??
      (reason === "corrupt" && path !== undefined
        ? "Log in, which replaces the file, or log out, which removes it."
        : standard.hint)
  }
}

const nameOfError = "SessionStoreError"

/**
 * The rejection of a session store that knows the reason. A store of one's own may reject with it; the client passes its fields on.
 * Fields that are left out follow from the reason.
 */
export class SessionStoreError extends Error implements StoreProblem {
  override readonly name = nameOfError
  readonly reason: StoreFailureReason
  declare readonly path?: string
  declare readonly code?: string
  readonly retryable: boolean
  readonly hint: string

  constructor(input: StoreProblemInput) {
    const { code, hint, message, path, reason, retryable } = complete(input)
    super(message, input.cause === undefined ? undefined : { cause: input.cause })
    this.reason = reason
    if (path !== undefined) this.path = path
    if (code !== undefined) this.code = code
    this.retryable = retryable
    this.hint = hint
  }
}

/** Recognised by its fields: a program may load two copies of this module, CommonJS and ESM. */
const stated = (cause: unknown): StoreProblem | undefined => {
  if (field(cause, "name") !== nameOfError) return undefined
  const reason = textField(cause, "reason")
  if (!isReason(reason)) return undefined
  const [path, code, message, hint] = ["path", "code", "message", "hint"].map((name) =>
    textField(cause, name)
  )
  const retryable = field(cause, "retryable")
  return complete({
    reason,
    ...(path === undefined ? {} : { path }),
    ...(code === undefined ? {} : { code }),
    ...(message === undefined || message === "" ? {} : { message }),
    ...(hint === undefined || hint === "" ? {} : { hint }),
    ...(typeof retryable === "boolean" ? { retryable } : {})
  })
}

/** A failure of Node, a browser or JSON. */
const recognised = (cause: unknown): StoreProblem | undefined => {
  const code = textField(cause, "code")
  if (code !== undefined && isSystemCode(code)) {
    const path = textField(cause, "path")
    return complete({
      reason: "unavailable",
      ...byCode.get(code),
      code,
      ...(path === undefined ? {} : { path })
    })
  }
  const name = textField(cause, "name")
  const row = name === undefined ? undefined : byName.get(name)
  if (name === undefined || row === undefined) return undefined
  return complete({ ...row, ...(row.reason === "corrupt" || row.reason === "locked" ? {} : { code: name }) })
}

/** A store may wrap the error of its disk. */
const mostCauses = 8

/** Describes the rejection of any store or lock. Never fails, and never quotes an unknown error's message. */
export const describeStoreFailure = (cause: unknown): StoreProblem => {
  let current = cause
  for (let depth = 0; depth < mostCauses && current !== undefined; depth += 1) {
    const found = stated(current) ?? recognised(current)
    if (found !== undefined) return found
    current = field(current, "cause")
  }
  return complete({ reason: "unavailable" })
}

/** The failure as an error that names `path`. Keeps an error that a store wrote itself. */
export const storeErrorOf = (cause: unknown, path?: string): Error => {
  if (cause instanceof Error && stated(cause) !== undefined) return cause
  const { code, hint, reason, retryable } = describeStoreFailure(cause)
  return new SessionStoreError({
    reason,
    retryable,
    ...(path === undefined ? {} : { path }),
    ...(code === undefined ? {} : { code }),
    // The message of a JSON error quotes the text around the error.
    ...(reason === "corrupt" ? {} : { hint, cause })
  })
}
