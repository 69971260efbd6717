/** Errors of the drivers become one of the problems of the port, and what follows from it. */
import { SqlError } from "@effect/sql/SqlError"
import { Either, Schema } from "effect"
import { expect, it } from "vitest"
import {
  concernsAll,
  isBusy,
  StoreUnavailable,
  toStoreUnavailable
} from "../../../src/services/store/StoreUnavailable.ts"

const secret = "near 'c:ana': a value"
const withCode = (code: string) => new SqlError({ cause: Object.assign(new Error(secret), { code }) })
const translated = toStoreUnavailable("Database x", "Reports.find")

/** Codes by kind. */
const codes: Readonly<Record<string, string>> = {
  unanswered:
    "08006 08P01 57P01 57P03 ECONNREFUSED ECONNRESET ENOTFOUND EPIPE ETIMEDOUT EAI_AGAIN 53300 57014 25P03",
  locked: "SQLITE_BUSY SQLITE_BUSY_SNAPSHOT SQLITE_LOCKED_SHAREDCACHE 40P01 40001 55P03",
  full: "SQLITE_FULL SQLITE_IOERR_SHMSIZE ENOSPC EDQUOT 53100",
  corrupt: "SQLITE_CORRUPT SQLITE_CORRUPT_INDEX SQLITE_NOTADB XX001 XX002",
  other:
    "ENOENT SQLITE_READONLY EACCES SQLITE_IOERR_FSYNC SQLITE_CANTOPEN SQLITE_CONSTRAINT_UNIQUE CERT_HAS_EXPIRED EPROTO 25006 0A000 28P01 3D000 42501 23505 42P01"
}
const rows = Object.entries(codes).flatMap(([kind, listed]) =>
  listed.split(" ").map((code) => ({ kind, code }))
)

it.each(rows)("$code is $kind", ({ code, kind }) => {
  const error = withCode(code)
  const unavailable = translated(error)
  expect(unavailable).toMatchObject({ kind, code })
  expect(unavailable.reason).toContain("Database x")
  expect(unavailable.reason).toContain(`(${code}), in Reports.find`)
  expect(unavailable.reason).not.toContain("c:ana")
  expect(unavailable.fix.length).toBeGreaterThan(10)
  expect(isBusy(error)).toBe(kind === "locked" || code === "53300")
  // The server ended a statement for its time, and goes on.
  expect(concernsAll(error)).toBe(kind === "locked" || (kind === "unanswered" && code !== "57014"))
})

it.each([
  ["timeout exceeded when trying to connect", "unanswered"],
  ["Query read timeout", "unanswered"],
  ["Connection terminated due to connection timeout", "unanswered"],
  ["Client has encountered a connection error and is not queryable", "unanswered"],
  ["The server does not support SSL connections", "other"],
  ["private words", "other"]
])("without a code: %s is %s, and is not repeated", (words, kind) => {
  const error = new SqlError({ cause: new Error(words) })
  expect(translated(error).kind).toBe(kind)
  expect(translated(error).reason).not.toContain(words)
  expect(concernsAll(error)).toBe(kind === "unanswered")
})

it("the innermost code counts; a missing socket is a server that is away, a malformed row no value", () => {
  const inner = new SqlError({ cause: new SqlError({ cause: withCode("SQLITE_FULL") }) })
  expect(translated(inner).kind).toBe("full")
  const cause = Object.assign(new Error("connect"), { code: "ENOENT", syscall: "connect" })
  expect(translated(new SqlError({ cause })).kind).toBe("unanswered")
  const row = Either.flip(Schema.decodeUnknownEither(Schema.Number)("private words"))
  const malformed = Either.getOrThrow(Either.map(row, translated))
  expect([malformed.kind, malformed.reason]).toEqual([
    "other",
    "Database x is corrupt: a row has an unexpected form, in Reports.find"
  ])
  const known = new StoreUnavailable({ database: "Database y", kind: "locked" })
  expect(translated(known)).toBe(known)
  expect(translated(new StoreUnavailable({ kind: "full" })).database).toBe("Database x")
})
