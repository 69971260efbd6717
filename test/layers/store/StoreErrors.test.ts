/** Errors of the drivers become one of the problems of the port, and what follows from it. */
import { SqlError } from "@effect/sql/SqlError"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { expect, it } from "vitest"
import {
  isConnectionLost,
  isLasting,
  isLocked,
  toStoreUnavailable
} from "../../../src/layers/store/StoreErrors.ts"
import { StoreUnavailable } from "../../../src/services/Store.ts"

const secret = "near 'c:ana': a value"
const withCode = (code: string) => new SqlError({ cause: Object.assign(new Error(secret), { code }) })
const translated = toStoreUnavailable("Database x", "Reports.find")

/** Codes by problem; `!` marks those after which the next write fails as well, `?` those after which the connection stays. */
const codes: Readonly<Record<string, string>> = {
  gone: "SQLITE_READONLY_DBMOVED ENOENT",
  locked: "SQLITE_BUSY SQLITE_BUSY_SNAPSHOT SQLITE_LOCKED_SHAREDCACHE 40P01? 40001? 55P03?",
  full: "SQLITE_FULL! ENOSPC! EDQUOT! 53100!?",
  read_only: "SQLITE_READONLY! SQLITE_READONLY_DIRECTORY! SQLITE_PERM! EACCES! EROFS!",
  standby: "25006 0A000",
  corrupt: "SQLITE_CORRUPT! SQLITE_CORRUPT_INDEX! SQLITE_NOTADB! XX001!? XX002!?",
  io_failed: "SQLITE_IOERR_FSYNC! EIO!",
  not_openable: "SQLITE_CANTOPEN EISDIR ENOTDIR ELOOP",
  unreachable: "08006 08P01 57P01 57P03 ECONNREFUSED ECONNRESET ENOTFOUND EPIPE ETIMEDOUT EAI_AGAIN",
  login_refused: "28P01? 28000?",
  no_such_database: "3D000?",
  not_permitted: "42501!?",
  too_many_connections: "53300?",
  canceled: "57014? 25P03",
  timed_out: "POOL_TIMEOUT",
  untrusted:
    "SELF_SIGNED_CERT_IN_CHAIN DEPTH_ZERO_SELF_SIGNED_CERT ERR_TLS_CERT_ALTNAME_INVALID CERT_HAS_EXPIRED EPROTO",
  failed: "SQLITE_CONSTRAINT_UNIQUE 23505? 22P02? 42P01?"
}
const rows = Object.entries(codes).flatMap(([kind, listed]) =>
  listed.split(" ").map((marked) => ({ kind, marked, code: marked.replaceAll(/[!?]/g, "") }))
)

it.each(rows)("$code is $kind ($marked)", ({ code, kind, marked }) => {
  const error = withCode(code)
  const unavailable = translated(error)
  expect(unavailable.problem).toEqual({ kind, code })
  expect(unavailable.reason).toContain("Database x")
  expect(unavailable.reason).toContain(`(${code}), in Reports.find`)
  expect(unavailable.reason).not.toContain("c:ana")
  expect(unavailable.fix.length).toBeGreaterThan(10)
  expect(isLocked(error)).toBe(kind === "locked")
  expect(isLasting(unavailable)).toBe(marked.includes("!"))
  expect(isConnectionLost(error)).toBe(!marked.includes("?"))
})

it.each([
  ["timeout exceeded when trying to connect", "timed_out"],
  ["timeout expired", "timed_out"],
  ["Query read timeout", "timed_out"],
  ["Connection terminated due to connection timeout", "unreachable"],
  ["Connection terminated unexpectedly", "unreachable"],
  ["Client has encountered a connection error and is not queryable", "unreachable"],
  ["Cannot use a pool after calling end on the pool", "closed"],
  ["The database connection is not open", "closed"],
  ["The server does not support SSL connections", "no_tls"],
  ["SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string", "login_refused"],
  ["private words", "failed"]
])("without a code: %s is %s, and is not repeated", (words, kind) => {
  const error = new SqlError({ cause: new Error(words) })
  expect(translated(error).problem).toEqual({ kind })
  expect(translated(error).reason).not.toContain(words)
  expect(isConnectionLost(error)).toBe(true)
})

it("the innermost code counts; a missing socket is an unreachable server, a malformed row no value", () => {
  const inner = new SqlError({ cause: new SqlError({ cause: withCode("SQLITE_FULL") }) })
  expect(translated(inner).problem.kind).toBe("full")
  const cause = Object.assign(new Error("connect"), { code: "ENOENT", syscall: "connect" })
  expect(translated(new SqlError({ cause })).problem.kind).toBe("unreachable")
  const row = Either.flip(Schema.decodeUnknownEither(Schema.Number)("private words"))
  const malformed = Either.map(row, translated)
  expect(Either.getOrThrow(malformed).problem).toEqual({ kind: "row_malformed" })
  expect(Either.getOrThrow(malformed).reason).not.toContain("private words")
  const known = new StoreUnavailable({ database: "Database y", problem: { kind: "locked" } })
  expect(translated(known)).toBe(known)
  expect([isLocked(known), isConnectionLost(known)]).toEqual([false, false])
  expect(translated(new StoreUnavailable({ problem: { kind: "gone" } })).database).toBe("Database x")
})
