/** The real server against the simulators, with settings of the test; keeps its log. */
import { randomUUID } from "node:crypto"
import { join } from "node:path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { vi } from "vitest"
import { parts } from "../../src/Backend.ts"
import { call, expectJson, textOf } from "../../sandbox/HttpExchange.ts"
import { mintSlt, type SimulatedUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import type { SettingsValues } from "../../src/services/Settings.ts"
import { Store, type StoreService } from "../../src/services/Store.ts"
import { until } from "../world/Waiting.ts"
import { startServer } from "../world/Sandbox.ts"
import { temporaryFolder } from "../world/SqliteTemplate.ts"

export const startObserved = (
  options: {
    /** OpenTelemetry's variables of the process. */
    readonly variables?: Readonly<Record<string, string>>
    readonly settings?: Partial<SettingsValues>
    readonly change?: (store: StoreService) => StoreService
  } = {}
) =>
  Effect.gen(function* () {
    yield* Effect.addFinalizer(() => Effect.sync(() => vi.unstubAllEnvs()))
    for (const [name, value] of Object.entries(options.variables ?? {})) vi.stubEnv(name, value)
    const databasePath = join(yield* temporaryFolder, "music.sqlite")
    const adminBind = Option.some({ host: "127.0.0.1", port: 0 })
    const store: typeof parts.store = Layer.map(parts.store, (context) =>
      Context.add(context, Store, (options.change ?? ((same) => same))(Context.get(context, Store)))
    )
    const server = yield* startServer({ databasePath, adminBind, ...options.settings }, store)
    const { base, log, world } = server
    yield* until(() => log.join().includes("Metrics served"))
    const [, admin = ""] = /"url":"([^"]+)\/metrics"/.exec(log.join("\n")) ?? []
    world.iam.controls.setWebhook("production", "music", { url: `${base}/webhook/` })
    return { ...server, admin }
  })

type Headers = Readonly<Record<string, string>>

export const keyed = (): Headers => ({ "idempotency-key": randomUUID() })

/** Calls as a client makes them. */
export const calls = ({ base, world }: { readonly base: string; readonly world: SimulatedUpstreams }) => {
  const post = (path: string, body: unknown, headers: Headers = {}) =>
    call(`${base}${path}`, { method: "POST", body, headers })
  const get = (path: string, headers: Headers = {}) => call(`${base}${path}`, { headers })
  const login = (headers: Headers = {}, slt = mintSlt(world)) =>
    Effect.gen(function* () {
      const session = yield* expectJson(
        yield* post("/api/v1/auth/login", { slt }, { ...keyed(), ...headers }),
        200
      )
      const accessToken = yield* textOf(session, "access_token")
      return {
        session,
        accessToken,
        refreshToken: yield* textOf(session, "refresh_token"),
        signed: { authorization: `Bearer ${accessToken}`, "x-org-id": "acme" }
      }
    })
  return { post, get, login }
}
