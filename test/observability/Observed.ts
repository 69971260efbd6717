/** The real server against the simulators, with settings of the test; keeps its log. */
import { randomUUID } from "node:crypto"
import { join } from "node:path"
import { Context, Effect, Exit, Layer, Option, Scope } from "effect"
import { vi } from "vitest"
import { parts } from "../../src/Backend.ts"
import { call, expectJson, textOf } from "../../sandbox/HttpExchange.ts"
import { mintSlt, type SimulatedUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import type { SettingsValues } from "../../src/services/Settings.ts"
import { Store, type StoreService } from "../../src/services/Store.ts"
import { until } from "../world/Waiting.ts"
import { startServer } from "../world/Sandbox.ts"
import { temporaryFolder } from "../world/SqliteTemplate.ts"

type Headers = Readonly<Record<string, string>>

export const keyed = (): Headers => ({ "idempotency-key": randomUUID() })

/** Calls as a client makes them. */
const callsOf = ({ base, world }: { readonly base: string; readonly world: SimulatedUpstreams }) => {
  const post = (path: string, body: unknown, headers: Headers = {}) =>
    call(`${base}${path}`, { method: "POST", body, headers })
  const get = (path: string, headers: Headers = {}) => call(`${base}${path}`, { headers })
  const login = (headers: Headers = {}) =>
    Effect.gen(function* () {
      const answer = yield* post("/api/v1/auth/login", { slt: mintSlt(world) }, { ...keyed(), ...headers })
      const session = yield* expectJson(answer, 200)
      const accessToken = yield* textOf(session, "access_token")
      return {
        refreshToken: yield* textOf(session, "refresh_token"),
        signed: { authorization: `Bearer ${accessToken}`, "x-org-id": "acme" }
      }
    })
  return { post, get, login }
}

/** `end` ends the server before its scope does. */
export const startObserved = (
  options: {
    /** OpenTelemetry's variables of the process. */
    readonly variables?: Readonly<Record<string, string>>
    readonly settings?: Partial<SettingsValues>
    readonly change?: (store: StoreService) => Partial<StoreService>
  } = {}
) =>
  Effect.gen(function* () {
    yield* Effect.addFinalizer(() => Effect.sync(() => vi.unstubAllEnvs()))
    for (const [name, value] of Object.entries(options.variables ?? {})) vi.stubEnv(name, value)
    const databasePath = join(yield* temporaryFolder, "music.sqlite")
    const adminBind = Option.some({ host: "127.0.0.1", port: 0 })
    const store: typeof parts.store = Layer.map(parts.store, (context) => {
      const own = Context.get(context, Store)
      return Context.add(context, Store, { ...own, ...options.change?.(own) })
    })
    const scope = yield* Effect.acquireRelease(Scope.make(), Scope.close)
    const settings = { databasePath, adminBind, ...options.settings }
    const server = yield* Scope.extend(startServer(settings, store), scope)
    const { base, log, world } = server
    yield* until(() => log.join().includes("Metrics served"))
    const [, admin = ""] = /"url":"([^"]+)\/metrics"/.exec(log.join("\n")) ?? []
    world.iam.controls.setWebhook("production", "music", { url: `${base}/webhook/` })
    return { ...server, ...callsOf(server), admin, end: Scope.close(scope, Exit.void) }
  })

export type Observed = Effect.Effect.Success<ReturnType<typeof startObserved>>
