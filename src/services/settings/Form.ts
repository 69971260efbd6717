/** Forms of settings. The problem with a bad text never contains the text: it may be a secret in the wrong place. */
import { isIP } from "node:net"
import * as Either from "effect/Either"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { isLoopback } from "../Addresses.ts"

/** Turns a text into its value, or says what is wrong with it. */
export interface Form<A> {
  (raw: string): Either.Either<A, string>
  /** The value is shown as set or unset, and may be in a file. */
  readonly secret?: true
}

export const matching = (pattern: RegExp, problem: string): Form<string> =>
  Either.liftPredicate(
    (raw) => pattern.test(raw),
    () => problem
  )

export const redacted = (pattern: RegExp, problem: string): Form<Redacted.Redacted> =>
  Object.assign((raw: string) => Either.map(matching(pattern, problem)(raw), Redacted.make), {
    secret: true as const
  })

export const whole =
  (low: number, high: number): Form<number> =>
  (raw) =>
    /^\d{1,9}$/.test(raw) && Number(raw) >= low && Number(raw) <= high
      ? Either.right(Number(raw))
      : Either.left(`must be a whole number from ${low} to ${high}`)

/** Some of a value; as secret as the value is. */
export const optional = <A>(form: Form<A>): Form<Option.Option<A>> =>
  Object.assign((raw: string) => Either.map(form(raw), Option.some), form.secret && { secret: form.secret })

/** Up to a terabyte; the result in bytes. */
export const megabytes: Form<number> = (raw) =>
  Either.map(whole(1, 1_000_000)(raw), (given) => given * 1_000_000)

/** One of the names of `values`; the result is its value. */
const named =
  <A>(values: Readonly<Record<string, A>>): Form<A> =>
  (raw) =>
    Either.fromNullable(
      Object.hasOwn(values, raw) ? values[raw] : undefined,
      () => `must be one of ${Object.keys(values).join(", ")}`
    )

export const onOff = named({ on: true, off: false })

export const logLevel = named({
  trace: LogLevel.Trace,
  debug: LogLevel.Debug,
  info: LogLevel.Info,
  warn: LogLevel.Warning,
  error: LogLevel.Error,
  none: LogLevel.None
})

/** Comma-separated. Names the first bad entry by its position only. */
export const list =
  <A>(each: Form<A>): Form<ReadonlyArray<A>> =>
  (raw) =>
    Either.all(
      raw
        .split(",")
        .map((part) => part.trim())
        .filter((part) => part !== "")
        .map((part, at) =>
          Either.mapLeft(each(part), (problem) => `${problem}; entry ${at + 1} does not fit`)
        )
    )

/** A URL that `accepts` allows, as written unless `normalize` changes it. */
const url =
  (
    problem: string,
    accepts: (url: URL, raw: string) => boolean,
    normalize = (_: URL, raw: string): string => raw
  ): Form<string> =>
  (raw) => {
    const parsed = URL.canParse(raw) ? new URL(raw) : undefined
    return parsed !== undefined && accepts(parsed, raw)
      ? Either.right(normalize(parsed, raw))
      : Either.left(problem)
  }

const isSecure = ({ hostname, protocol }: URL): boolean =>
  protocol === "https:" || (protocol === "http:" && isLoopback(hostname))

/** Base URL of another service: it keeps a path prefix and loses a trailing slash. */
export const serviceUrl = url(
  "must be an https URL (http on loopback only) without user, query or fragment",
  (parsed, raw) =>
    isSecure(parsed) && parsed.username + parsed.password === "" && !/[?#]/.test(raw) && parsed.port !== "0",
  ({ origin, pathname }) => `${origin}${pathname.replace(/\/+$/, "")}`
)

export const webOrigin = url(
  "must list origins such as https://music.example, without path or trailing slash",
  (parsed, raw) => parsed.origin === raw && isSecure(parsed)
)

/**
 * A character of the password that is not encoded ends the part of the address that it is in: the rest would be read as a host with a port,
 * a path or a query, and the `@` before the real host would be in it.
 */
export const postgresUrl = redacted(
  /^(?=[!-~]{1,4000}$)postgres(?:ql)?:\/\/(?:[^/?#]+@)?(?:\[[\da-f:.]+\]|%2f[\w.%-]+|[\w.-]*)(?::\d+)?(?:\/[^/?#@]*)?(?:\?[\w.-]+=[^#]*)?$/i,
  "must be an address such as postgres://user:password@host/database, percent-encoded in its parts: # as %23, / as %2F, ? as %3F, @ as %40, % as %25"
)

/** Undici decodes its user and password. */
export const proxyAddress = url(
  "must be the address of an http or https proxy, such as http://proxy.example:3128",
  ({ password, protocol, username }) =>
    /^https?:$/.test(protocol) && Either.isRight(Either.try(() => decodeURIComponent(username + password)))
)

export const address: Form<{ host: string; port: number }> = (raw) => {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^[\]:\s]+)):(\d{1,5})$/.exec(raw)
  const host = match?.[1] ?? match?.[2]
  const port = Number(match?.[3])
  return host !== undefined && port <= 65_535
    ? Either.right({ host, port })
    : Either.left("must be host:port, such as 127.0.0.1:8787 or [::1]:8787")
}

export const proxy: Form<string> = (raw) => {
  const [, host = "", bits = "0"] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(raw) ?? []
  return isIP(host) !== 0 && Number(bits) <= (isIP(host) === 4 ? 32 : 128)
    ? Either.right(raw)
    : Either.left("must list addresses or CIDRs, such as 10.0.0.0/8")
}

/** `.` and `..` would change the path of a request. */
export const repository: Form<{ owner: string; repository: string }> = (raw) => {
  const [, owner = "", repository = ""] = /^(?!\.\.?\/)([\w.-]+)\/(?!\.\.?$)([\w.-]+)$/.exec(raw) ?? []
  return repository === "" ? Either.left("must be owner/repository") : Either.right({ owner, repository })
}

export const retentionDays = whole(0, 36_500)
