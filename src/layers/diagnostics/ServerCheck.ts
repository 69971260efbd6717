/** Checks whether this server runs at the listen addresses and is ready, or else whether it could listen on them. */
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { isLoopback } from "../../services/Loopback.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import { type Check, type Finding, fail, pass, skip, warn } from "./Finding.ts"
import { type Address, listenFailure, formatAddress, tryListening } from "./ListenCheck.ts"

const Health = Schema.Struct({ service: Schema.Literal("music-backend") })
const Checks = Schema.Record({ key: Schema.String, value: Schema.String })
const Ready = Schema.Struct({ status: Schema.Literal("ready"), checks: Checks })
const NotReady = Schema.Struct({
  error: Schema.Struct({ details: Schema.optional(Schema.Struct({ checks: Checks })) })
})

/** What a server publishes of its settings. */
const Descriptor = Schema.Struct({
  app_id: Schema.String,
  org_id: Schema.String,
  iam_url: Schema.String,
  ting_url: Schema.String
})

/** The host to connect to; a wildcard address is reached at loopback. */
const reachable = ({ host, port }: Address): Address => ({
  host: host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host,
  port
})

const listed = (checks: Readonly<Record<string, string>>): string =>
  Object.entries(checks)
    .filter(([, state]) => state !== "ok" && state !== "off")
    .map(([name, state]) => `${name} ${state}`)
    .join(", ")

const logFix = "see its log, and the other lines here"

/** Short, since the server is on this machine. */
const answerSeconds = 3
const answerWithin = `${answerSeconds} seconds` as const

const isIPv6 = (host: string): boolean => host.includes(":")

/** Whether listening on one of them takes the other one. `::` listens on IPv4 as well. */
export const overlap = (one: Address, other: Address): boolean => {
  const covers = (wide: Address, narrow: Address) =>
    wide.host === "::" || (wide.host === "0.0.0.0" && !isIPv6(narrow.host))
  const loopback = ({ host }: Address) => (host === "localhost" ? "127.0.0.1" : host)
  return (
    one.port !== 0 &&
    one.port === other.port &&
    (covers(one, other) || covers(other, one) || loopback(one) === loopback(other))
  )
}

/** `broken` says whether the value of a setting is a placeholder. */
export const checkServer = (
  client: HttpClient.HttpClient,
  { adminBind, bind, iam, organisation, ting }: SettingsValues,
  broken: (variable: string) => boolean
): Check => {
  const get = <A, I>(address: Address, path: string, schema: Schema.Schema<A, I>) =>
    HttpClient.withScope(client)
      .execute(HttpClientRequest.get(`http://${formatAddress(reachable(address))}${path}`))
      .pipe(
        Effect.flatMap((response) => response.json),
        Effect.flatMap(Schema.decodeUnknown(schema)),
        Effect.scoped,
        Effect.timeout(answerWithin)
      )
  /** What is at an address: this program, one that accepts connections and says nothing, or anything else or nothing. */
  const identify = (address: Address): Effect.Effect<"server" | "silent" | "other"> =>
    Effect.match(get(address, "/healthz", Health), {
      onSuccess: () => "server",
      onFailure: ({ _tag }) => (_tag === "TimeoutException" ? "silent" : "other")
    })

  const unusable = (
    name: string,
    variable: string,
    address: Address,
    found: "silent" | "other",
    code: string
  ): Finding =>
    found === "silent" && code === "EADDRINUSE"
      ? fail(
          name,
          `the program at ${formatAddress(address)} does not answer within ${answerSeconds} seconds`,
          `see its log if it is the server; else stop it, or set ${variable} to another port`
        )
      : listenFailure(name, variable, address, code)

  const readiness = get(bind, "/readyz", Schema.Union(Ready, NotReady)).pipe(
    Effect.map((found) => {
      if (!("checks" in found))
        return fail(
          "server",
          `runs at ${formatAddress(bind)}, but is not ready: ${listed(found.error.details?.checks ?? {})}`,
          logFix
        )
      const degraded = listed(found.checks)
      return degraded === ""
        ? pass("server", `runs at ${formatAddress(bind)} and is ready`)
        : warn("server", `runs at ${formatAddress(bind)}: ${degraded}`, logFix)
    }),
    Effect.orElseSucceed(() =>
      fail("server", `runs at ${formatAddress(bind)}, but does not say whether it is ready`, logFix)
    )
  )

  /** The server may be another one, or run with earlier settings. */
  const comparison = get(bind, "/api/v1/iam", Descriptor).pipe(
    Effect.map((found) =>
      [
        { name: "MUSIC_IAM_URL", same: found.iam_url === iam.url },
        { name: "MUSIC_IAM_APP_ID", same: found.app_id === iam.applicationId },
        { name: "MUSIC_ORG_ID", same: found.org_id === organisation },
        { name: "MUSIC_TING_URL", same: found.ting_url === ting.url }
      ]
        .filter(({ name, same }) => !same && !broken(name))
        .map(({ name }) => name)
    ),
    Effect.map((others) =>
      others.length === 0
        ? undefined
        : fail(
            "server",
            `the server at ${formatAddress(bind)} runs with another ${others.join(", ")}`,
            "restart it with these settings, or set MUSIC_BIND to the address of the server that has them"
          )
    ),
    Effect.orElseSucceed(() =>
      warn("server", `runs at ${formatAddress(bind)}, but does not say with which settings`, logFix)
    )
  )

  const server = (at: "server" | "silent" | "other"): Effect.Effect<Finding> =>
    at === "server"
      ? Effect.zipWith(comparison, readiness, (other, ready) =>
          ready.status === "PASS" || other?.status === "FAIL" ? (other ?? ready) : ready
        )
      : Effect.map(tryListening(bind), (code) =>
          code === undefined
            ? skip("server", `no server runs at ${formatAddress(bind)}, which is free`)
            : unusable("server", "MUSIC_BIND", bind, at, code)
        )

  const metrics = (runs: boolean, address: Address): Effect.Effect<Finding> =>
    Effect.gen(function* () {
      const fix = "set MUSIC_ADMIN_BIND to another port, such as 127.0.0.1:9464"
      if (overlap(bind, address))
        return fail(
          "metrics",
          `MUSIC_ADMIN_BIND and MUSIC_BIND are the same address, ${formatAddress(address)}`,
          fix
        )
      const at = yield* identify(address)
      if (at === "server")
        return runs
          ? pass(
              "metrics",
              `served at ${formatAddress(address)}${isLoopback(address.host) ? "" : ", to all that reach it"}`
            )
          : fail("metrics", `another music-backend listens at ${formatAddress(address)}`, fix)
      const code = yield* tryListening(address)
      if (code !== undefined) return unusable("metrics", "MUSIC_ADMIN_BIND", address, at, code)
      return runs
        ? warn(
            "metrics",
            `the running server does not serve them at ${formatAddress(address)}`,
            "restart it with these settings"
          )
        : pass("metrics", `${formatAddress(address)} is free`)
    })

  return Effect.gen(function* () {
    const at = yield* identify(bind)
    return yield* Effect.all([
      server(at),
      ...Option.toArray(adminBind).map((address) => metrics(at === "server", address))
    ])
  })
}
