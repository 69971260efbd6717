/**
 * Failures of session stores and locks: six reasons, with the system's code. No description holds a credential or a part of a file, so no
 * message of a foreign error is passed on.
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
    hint: "Let this program read and write the store and its folder, or give it another one."
  },
  misconfigured: {
    retryable: false,
    message: "The place of the session store cannot be used",
    hint: "Give the store another place, or remove what is in its way."
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

/** Codes of Node, and names of errors of browsers and of the language. */
const reasons: ReadonlyMap<string, StoreFailureReason> = new Map(
  Object.entries({
    no_space: ["ENOSPC", "EDQUOT", "EFBIG", "QuotaExceededError"],
    permission: ["EACCES", "EPERM", "EROFS", "SecurityError", "NotAllowedError"],
    misconfigured: [
      ...["ENOTDIR", "EISDIR", "EEXIST", "ELOOP", "ENAMETOOLONG", "ENOTSUP", "ENOSYS"],
      ...["ERR_INVALID_ARG_TYPE", "ERR_INVALID_ARG_VALUE", "NotFoundError", "VersionError"]
    ],
    corrupt: ["SyntaxError"],
    locked: ["AbortError", "TimeoutError"],
    unavailable: ["InvalidStateError", "UnknownError"]
  } satisfies Record<StoreFailureReason, ReadonlyArray<string>>).flatMap(([reason, names]) =>
    names.map((name) => [name, reason as StoreFailureReason] as const)
  )
)

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
  return typeof found === "string" && found !== "" ? found : undefined
}

/** The fields of a problem; what is left out follows from the reason. */
export interface StoreProblemInput extends Partial<Omit<StoreProblem, "reason">> {
  readonly reason: StoreFailureReason
  /** The error behind it. Never one that quotes a credential: programs log it. */
  readonly cause?: unknown
}

const complete = ({ code, hint, message, path, reason, retryable }: StoreProblemInput): StoreProblem => {
  const standard = defaults[reason]
  const place = path === undefined ? "" : `: ${path}`
  return {
    reason,
    ...(path === undefined ? {} : { path }),
    ...(code === undefined ? {} : { code }),
    retryable: retryable ?? standard.retryable,
    message: message ?? `${standard.message}${place}${code === undefined ? "" : ` (${code})`}.`,
    hint: hint ?? standard.hint
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

/** Recognised by its fields: a program may load two copies of this module. */
const stated = (cause: unknown): StoreProblem | undefined => {
  const reason = textField(cause, "reason")
  if (field(cause, "name") !== nameOfError || reason === undefined || !Object.hasOwn(defaults, reason))
    return undefined
  const texts = ["path", "code", "message", "hint"].flatMap((name) => {
    const text = textField(cause, name)
    return text === undefined ? [] : [[name, text]]
  })
  const retryable = field(cause, "retryable")
  return complete({
    reason: reason as StoreFailureReason,
    ...Object.fromEntries(texts),
    ...(typeof retryable === "boolean" ? { retryable } : {})
  })
}

/** A failure of Node, a browser or JSON. */
const recognised = (cause: unknown): StoreProblem | undefined => {
  const path = textField(cause, "path")
  for (const name of [textField(cause, "code"), textField(cause, "name")]) {
    if (name === undefined || !(reasons.has(name) || /^E[A-Z0-9]{2,19}$/.test(name))) continue
    const reason = reasons.get(name) ?? "unavailable"
    const code = reason === "corrupt" || reason === "locked" ? {} : { code: name }
    return complete({ reason, ...code, ...(path === undefined ? {} : { path }) })
  }
  return undefined
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
  const { code, reason } = describeStoreFailure(cause)
  return new SessionStoreError({
    reason,
    ...(path === undefined ? {} : { path }),
    ...(code === undefined ? {} : { code }),
    // The message of a JSON error quotes the text around the error.
    ...(reason === "corrupt" ? {} : { cause })
  })
}
