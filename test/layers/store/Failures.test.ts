import { SqlError } from "@effect/sql/SqlError"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { describe, expect, it } from "vitest"
import { isLocked, unavailable } from "../../../src/layers/store/Failures.ts"
import { StoreUnavailable } from "../../../src/services/Store.ts"

const withCode = (code: string) =>
  new SqlError({
    cause: Object.assign(new Error("near 'c:ana': a value"), { code }),
    message: "Failed to execute statement"
  })
const reasonOf = (error: SqlError) => unavailable("Database x", "Reports.find")(error).reason

describe("What a database says becomes StoreUnavailable", () => {
  it.each([
    ["SQLITE_BUSY", "is locked by another process"],
    ["SQLITE_BUSY_SNAPSHOT", "is locked by another process"],
    ["SQLITE_LOCKED_SHAREDCACHE", "is locked by another process"],
    ["40P01", "is locked by another process"],
    ["40001", "is locked by another process"],
    ["55P03", "is locked by another process"],
    ["SQLITE_FULL", "is full: there is no room left for it"],
    ["53100", "is full: there is no room left for it"],
    ["SQLITE_READONLY", "is read-only for this process"],
    ["SQLITE_READONLY_DIRECTORY", "is read-only for this process"],
    ["25006", "is read-only for this process"],
    ["SQLITE_READONLY_DBMOVED", "is gone: its file was moved or deleted"],
    ["SQLITE_CORRUPT", "is corrupt, or is no database"],
    ["SQLITE_CORRUPT_INDEX", "is corrupt, or is no database"],
    ["SQLITE_NOTADB", "is corrupt, or is no database"],
    ["XX001", "is corrupt, or is no database"],
    ["SQLITE_IOERR_FSYNC", "cannot be opened, read or written"],
    ["SQLITE_CANTOPEN", "cannot be opened, read or written"],
    ["08006", "does not answer"],
    ["57P01", "does not answer"],
    ["ECONNREFUSED", "does not answer"],
    ["28P01", "refuses the login"],
    ["SQLITE_CONSTRAINT_UNIQUE", "failed"],
    ["23505", "failed"]
  ])("%s: it %s", (code, trouble) => {
    expect(reasonOf(withCode(code))).toBe(`Database x ${trouble} (${code}), in Reports.find`)
  })

  it("the innermost code counts", () => {
    const error = new SqlError({ cause: new SqlError({ cause: withCode("SQLITE_FULL") }) })
    expect(reasonOf(error)).toContain("(SQLITE_FULL)")
  })

  it("an error without a code is told without its text", () => {
    expect(reasonOf(new SqlError({ cause: new Error("private words") }))).toBe(
      "Database x failed, in Reports.find"
    )
  })

  it("a row of another form is told without its content", () => {
    const result = Schema.decodeUnknownEither(Schema.Number)("private words")
    const [error] = Either.isLeft(result) ? [result.left] : []
    expect(error && unavailable("Database x", "Reports.find")(error).reason).toBe(
      "Database x is corrupt: a row is not of the expected form, in Reports.find"
    )
  })

  it("what was translated already stays as it is", () => {
    const error = new StoreUnavailable({ reason: "Database x is gone" })
    expect(unavailable("Database y", "Reports.find")(error)).toBe(error)
  })

  it("only a lock is waited for", () => {
    expect(isLocked(withCode("SQLITE_BUSY"))).toBe(true)
    expect(isLocked(withCode("40P01"))).toBe(true)
    expect(isLocked(withCode("SQLITE_FULL"))).toBe(false)
    expect(isLocked(new StoreUnavailable({ reason: "SQLITE_BUSY" }))).toBe(false)
  })
})
