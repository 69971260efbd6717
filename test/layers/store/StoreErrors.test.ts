import { SqlError } from "@effect/sql/SqlError"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { describe, expect, it } from "vitest"
import {
  isConnectionLost,
  isLasting,
  isLocked,
  toStoreUnavailable
} from "../../../src/layers/store/StoreErrors.ts"
import { StoreUnavailable } from "../../../src/services/Store.ts"

const withCode = (code: string) =>
  new SqlError({
    cause: Object.assign(new Error("near 'c:ana': a value"), { code }),
    message: "Failed to execute statement"
  })
const reasonOf = (error: SqlError) => toStoreUnavailable("Database x", "Reports.find")(error).reason

describe("Errors of a database become StoreUnavailable", () => {
  it.each([
    ["SQLITE_BUSY", "is locked by another process"],
    ["SQLITE_BUSY_SNAPSHOT", "is locked by another process"],
    ["SQLITE_LOCKED_SHAREDCACHE", "is locked by another process"],
    ["40P01", "is locked by another process"],
    ["40001", "is locked by another process"],
    ["55P03", "is locked by another process"],
    ["SQLITE_FULL", "is full: its disk or quota has no space left"],
    ["53100", "is full: its disk or quota has no space left"],
    ["SQLITE_READONLY", "is read-only for this process"],
    ["SQLITE_READONLY_DIRECTORY", "is read-only for this process"],
    ["25006", "is read-only for this process"],
    ["SQLITE_READONLY_DBMOVED", "is gone: its file was moved or deleted"],
    ["SQLITE_CORRUPT", "is corrupt, or not a database"],
    ["SQLITE_CORRUPT_INDEX", "is corrupt, or not a database"],
    ["SQLITE_NOTADB", "is corrupt, or not a database"],
    ["XX001", "is corrupt, or not a database"],
    ["SQLITE_IOERR_FSYNC", "cannot be opened, read or written"],
    ["SQLITE_CANTOPEN", "cannot be opened, read or written"],
    ["08006", "does not answer"],
    ["57P01", "does not answer"],
    ["ECONNREFUSED", "does not answer"],
    ["28P01", "refuses the login"],
    ["57P03", "does not answer"],
    ["ENOTFOUND", "does not answer"],
    ["EPIPE", "does not answer"],
    ["3D000", "does not exist"],
    ["42501", "does not permit this operation to its user"],
    ["53300", "accepts no more connections"],
    ["57014", "took too long"],
    ["POOL_TIMEOUT", "does not answer in time"],
    ["25P03", "took too long"],
    ["SELF_SIGNED_CERT_IN_CHAIN", "cannot be trusted: TLS failed"],
    ["DEPTH_ZERO_SELF_SIGNED_CERT", "cannot be trusted: TLS failed"],
    ["ERR_TLS_CERT_ALTNAME_INVALID", "cannot be trusted: TLS failed"],
    ["CERT_HAS_EXPIRED", "cannot be trusted: TLS failed"],
    ["EPROTO", "cannot be trusted: TLS failed"],
    ["SQLITE_CONSTRAINT_UNIQUE", "failed"],
    ["23505", "failed"]
  ])("%s: it %s", (code, trouble) => {
    expect(reasonOf(withCode(code))).toBe(`Database x ${trouble} (${code}), in Reports.find`)
  })

  it("the innermost code is used", () => {
    const error = new SqlError({ cause: new SqlError({ cause: withCode("SQLITE_FULL") }) })
    expect(reasonOf(error)).toContain("(SQLITE_FULL)")
  })

  it("an error without a code is logged without its message", () => {
    expect(reasonOf(new SqlError({ cause: new Error("private words") }))).toBe(
      "Database x failed, in Reports.find"
    )
  })

  it.each([
    ["timeout exceeded when trying to connect", "does not answer in time"],
    ["Connection terminated due to connection timeout", "does not answer"],
    ["Connection terminated unexpectedly", "does not answer"],
    ["Query read timeout", "does not answer in time"],
    ["Client has encountered a connection error and is not queryable", "does not answer"],
    ["Cannot use a pool after calling end on the pool", "is closed"],
    ["The server does not support SSL connections", "does not support TLS"],
    ["SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string", "refuses the login"]
  ])("%s: it %s", (words, trouble) => {
    expect(reasonOf(new SqlError({ cause: new Error(words) }))).toBe(`Database x ${trouble}, in Reports.find`)
  })

  it("a missing socket file means that the server does not answer", () => {
    const cause = Object.assign(new Error("connect"), { code: "ENOENT", syscall: "connect" })
    expect(reasonOf(new SqlError({ cause }))).toBe("Database x does not answer (ENOENT), in Reports.find")
  })

  it("a connection is lost when it broke, hung, or its server is read-only, not when a statement was refused", () => {
    const lost = ["08006", "57P01", "25006", "25P03", "ECONNRESET", "EPIPE"]
    expect(lost.map((code) => isConnectionLost(withCode(code)))).toEqual(lost.map(() => true))
    expect(isConnectionLost(new SqlError({ cause: new Error("Query read timeout") }))).toBe(true)
    const answered = ["23505", "40001", "40P01", "57014", "22P02", "53100", "42P01"]
    expect(answered.map((code) => isConnectionLost(withCode(code)))).toEqual(answered.map(() => false))
  })

  it("a row of another shape is logged without its content", () => {
    const result = Schema.decodeUnknownEither(Schema.Number)("private words")
    const [error] = Either.isLeft(result) ? [result.left] : []
    expect(error && toStoreUnavailable("Database x", "Reports.find")(error).reason).toBe(
      "Database x is corrupt: a row has an unexpected form, in Reports.find"
    )
  })

  it("a StoreUnavailable is not translated again", () => {
    const error = new StoreUnavailable({ database: "Database x", problem: { kind: "gone" } })
    expect(toStoreUnavailable("Database y", "Reports.find")(error)).toBe(error)
  })

  it("only a lock counts as locked", () => {
    expect(isLocked(withCode("SQLITE_BUSY"))).toBe(true)
    expect(isLocked(withCode("40P01"))).toBe(true)
    expect(isLocked(withCode("SQLITE_FULL"))).toBe(false)
    expect(isLocked(new StoreUnavailable({ problem: { kind: "locked" } }))).toBe(false)
  })

  it("a missing disk or right is permanent; a lock, a lost connection and a standby are not", () => {
    const lasting = [
      "SQLITE_FULL",
      "ENOSPC",
      "53100",
      "SQLITE_IOERR_WRITE",
      "SQLITE_READONLY",
      "EACCES",
      "42501"
    ]
    const isLastingCode = (code: string) =>
      isLasting(toStoreUnavailable("Database x", "Reports.find")(withCode(code)))
    expect(lasting.filter((code) => !isLastingCode(code))).toEqual([])
    const passing = ["SQLITE_BUSY", "08006", "ECONNREFUSED", "25006", "SQLITE_CANTOPEN", "23505"]
    expect(passing.filter(isLastingCode)).toEqual([])
  })
})

describe("The message of StoreUnavailable", () => {
  const error = new StoreUnavailable({
    database: "Database x",
    operation: "Store.open",
    problem: { kind: "older_schema", found: 2, known: 4 }
  })

  it("is one line in the log, with advice and operation", () => {
    expect(error.reason).toBe(
      "Database x has an older schema than this version of the program needs (2, needed 4): run music-backend migrate, or start the backend once, in Store.open"
    )
  })

  it("is shorter for an operator, with the fix beside it", () => {
    expect(error.summary).toBe(
      "Database x has an older schema than this version of the program needs (2, needed 4)"
    )
    expect(error.fix).toBe("run music-backend migrate, or start the server once")
  })

  it("of a failed migration has the fix of its reason", () => {
    const failed = new StoreUnavailable({
      database: "Database x",
      problem: { kind: "migration_failed", reason: { kind: "full", code: "SQLITE_FULL" } }
    })
    expect(failed.summary).toMatch(/schema of this version: it is full: .* \(SQLITE_FULL\)$/)
    expect(failed.fix).toBe("free space on its disk")
  })

  it("of an unknown problem has a fix too", () => {
    expect(new StoreUnavailable({ problem: { kind: "failed" } })).toMatchObject({
      reason: "The database failed",
      fix: expect.stringContaining("MUSIC_DATABASE_URL")
    })
  })
})
