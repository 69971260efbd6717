/** Checks whether this server runs at the listen address, and its readiness. */
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { SettingsValues } from "../../services/Settings.ts"
import { neverSent } from "../upstream/Connection.ts"
import { type Check, fail, pass, skip, warn } from "./Finding.ts"

const Health = Schema.Struct({ service: Schema.Literal("music-backend") })
const Checks = Schema.Record({ key: Schema.String, value: Schema.String })
const Ready = Schema.Struct({ status: Schema.Literal("ready"), checks: Checks })
const NotReady = Schema.Struct({
  error: Schema.Struct({ details: Schema.optional(Schema.Struct({ checks: Checks })) })
})

/** The host to connect to; a wildcard address is reached at loopback. */
const reachable = (host: string): string => {
  if (host === "0.0.0.0") return "127.0.0.1"
  if (host === "::") return "[::1]"
  return host.includes(":") ? `[${host}]` : host
}

const listed = (checks: Readonly<Record<string, string>>): string =>
  Object.entries(checks)
    .filter(([, state]) => state !== "ok" && state !== "off")
    .map(([name, state]) => `${name} ${state}`)
    .join(", ")

/** Short, since the server is on this machine. */
const answerWithin = "3 seconds"

export const checkServer = (client: HttpClient.HttpClient, { bind }: Pick<SettingsValues, "bind">): Check => {
  const base = `http://${reachable(bind.host)}:${bind.port}`
  const address = `${bind.host}:${bind.port}`
  const get = <A, I>(path: string, schema: Schema.Schema<A, I>) =>
    HttpClient.withScope(client)
      .execute(HttpClientRequest.get(`${base}${path}`))
      .pipe(
        Effect.flatMap((response) => response.json),
        Effect.flatMap(Schema.decodeUnknown(schema)),
        Effect.scoped,
        Effect.timeout(answerWithin)
      )

  const somethingElse = fail(
    "server",
    `another program listens at ${address}`,
    "stop it, or set MUSIC_BIND to another port"
  )

  return Effect.gen(function* () {
    yield* get("/healthz", Health)
    const readiness = yield* get("/readyz", Schema.Union(Ready, NotReady))
    if (!("checks" in readiness))
      return warn(
        "server",
        `runs at ${address}, but is not ready: ${listed(readiness.error.details?.checks ?? {})}`,
        "see its log, and the other lines here"
      )
    const degraded = listed(readiness.checks)
    return degraded === ""
      ? pass("server", `runs at ${address} and is ready`)
      : warn("server", `runs at ${address}: ${degraded}`, "see its log, and the other lines here")
  }).pipe(
    Effect.catchAll((error) =>
      Effect.succeed(
        error._tag === "RequestError" && neverSent(error)
          ? skip("server", `no server runs at ${address}`)
          : somethingElse
      )
    ),
    Effect.map((finding) => [finding])
  )
}
