import { inspect } from "node:util"
import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import {
  describeStoreFailure,
  SessionStoreError,
  storeErrorOf
} from "../../../client/failures/StoreFailures.ts"

const systemError = (code: string, path?: string) =>
  Object.assign(new Error(`${code}: something`), { code, ...(path === undefined ? {} : { path }) })

const browserError = (name: string) => new DOMException("something", name)

const secret = "ort_0123456789"

describe("The description of a store failure", () => {
  it.each([
    ["ENOSPC", "no_space", true],
    ["EDQUOT", "no_space", true],
    ["EFBIG", "no_space", true],
    ["EACCES", "permission", false],
    ["EPERM", "permission", false],
    ["EROFS", "permission", false],
    ["ENOTDIR", "misconfigured", false],
    ["EISDIR", "misconfigured", false],
    ["EEXIST", "misconfigured", false],
    ["ELOOP", "misconfigured", false],
    ["ENAMETOOLONG", "misconfigured", false],
    ["ERR_INVALID_ARG_VALUE", "misconfigured", false],
    ["EIO", "unavailable", true],
    ["EMFILE", "unavailable", true],
    ["ENOENT", "unavailable", true],
    ["ESTALE", "unavailable", true]
  ] as const)("of %s is %s", (code, reason, retryable) => {
    const problem = describeStoreFailure(systemError(code, "/music/session-1.json"))
    expect(problem).toMatchObject({ reason, retryable, code, path: "/music/session-1.json" })
    expect(problem.message).toContain(`/music/session-1.json (${code}).`)
    expect(problem.hint).not.toBe("")
    expect(describeStoreFailure(systemError(code)).message).toMatch(/[a-z] \([A-Z_]+\)\.$/)
  })

  it.each([
    ["QuotaExceededError", "no_space", true],
    ["SecurityError", "permission", false],
    ["NotAllowedError", "permission", false],
    ["VersionError", "unavailable", false],
    ["NotFoundError", "misconfigured", false],
    ["InvalidStateError", "unavailable", true],
    ["UnknownError", "unavailable", true],
    ["AbortError", "locked", true],
    ["TimeoutError", "locked", true]
  ] as const)("of a browser's %s is %s", (name, reason, retryable) => {
    expect(describeStoreFailure(browserError(name))).toMatchObject({ reason, retryable })
  })

  it("of malformed JSON is corrupt, and quotes nothing of it", () => {
    const parsing = () => {
      try {
        return JSON.parse(`{"refresh_token":"${secret}`)
      } catch (error) {
        return error
      }
    }
    const problem = describeStoreFailure(parsing())
    expect(problem).toMatchObject({ reason: "corrupt", retryable: false })
    expect(inspect(problem)).not.toContain(secret)
    expect(inspect(storeErrorOf(parsing(), "/music/s.json"), { depth: 9 })).not.toContain(secret)
  })

  it("follows the causes of a store's own error", () => {
    const wrapped = new Error("cannot save", { cause: new Error(secret, { cause: systemError("ENOSPC") }) })
    expect(describeStoreFailure(wrapped)).toMatchObject({ reason: "no_space", code: "ENOSPC" })
    const circle: { cause?: unknown } = {}
    circle.cause = circle
    expect(describeStoreFailure(circle)).toMatchObject({ reason: "unavailable" })
  })

  it("takes the fields of a SessionStoreError, also of another copy of the package", () => {
    const input = { reason: "permission", path: "/x", retryable: true, message: "No.", hint: "Yes." } as const
    const own = new SessionStoreError(input)
    expect(own).toBeInstanceOf(Error)
    expect(describeStoreFailure(own)).toEqual(input)
    expect(describeStoreFailure({ name: "SessionStoreError", ...input })).toEqual(input)
    expect(describeStoreFailure(new SessionStoreError({ reason: "corrupt", path: "/x" }))).toEqual({
      reason: "corrupt",
      path: "/x",
      retryable: false,
      message: "The stored session is corrupt: /x.",
      hint: "Log in, which replaces the file, or log out, which removes it."
    })
    expect(storeErrorOf(own, "/y")).toBe(own)
  })

  it("of any value is complete, and quotes no message, name or code that it does not know", () => {
    const hostile = new Proxy(
      {},
      {
        get: () => {
          return inspect(secret)
        }
      }
    )
    const failing = Object.defineProperty({}, "code", { get: () => JSON.parse("") })
    const text = FastCheck.constantFrom(secret, "ENOSPC", "SecurityError", "SessionStoreError", "corrupt", "")
    const fields = FastCheck.record(
      { name: text, code: text, reason: text, retryable: FastCheck.anything(), cause: FastCheck.anything() },
      { requiredKeys: [] }
    )
    const error = FastCheck.tuple(fields, FastCheck.boolean()).map(([more, plain]) =>
      plain ? more : Object.assign(new Error(secret), more)
    )
    const any = FastCheck.oneof(FastCheck.anything(), error, FastCheck.constantFrom(hostile, failing, secret))
    FastCheck.assert(
      FastCheck.property(any, (cause) => {
        const problem = describeStoreFailure(cause)
        expect(typeof problem.retryable).toBe("boolean")
        expect(problem.message).not.toBe("")
        expect(problem.hint).not.toBe("")
        // A store's own SessionStoreError speaks for itself.
        if (typeof cause === "object" && cause !== null && Reflect.get(cause, "name") === "SessionStoreError")
          return
        expect(problem.message.endsWith(".")).toBe(true)
        expect(JSON.stringify(problem)).not.toContain(secret)
      }),
      { numRuns: 2_000, examples: [[hostile], [failing]] }
    )
  })
})
