/** The sandbox behind a fault proxy, and the commands that scenarios give it. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { production } from "../../../sandbox/upstreams/Iam.ts"
import { mintSlt } from "../../../sandbox/SimulatedUpstreams.ts"
import { startTestSandboxWith } from "../../support/Sandbox.ts"
import type { Bench, Commands } from "../suite/Bench.ts"
import { startFaultProxy } from "./FaultProxy.ts"

export interface TestBench extends Bench {
  readonly commands: Commands
  /** The server itself, without the proxy. */
  readonly server: string
  readonly close: () => Promise<void>
}

export const startTestBench = async (
  options: { readonly thorough: boolean; readonly page: boolean } = { thorough: true, page: false }
): Promise<TestBench> => {
  const scope = Effect.runSync(Scope.make())
  const { base, clock, world } = await Effect.runPromise(
    Scope.extend(startTestSandboxWith({ iamCallsPerMinute: 10_000 }), scope)
  )
  const proxy = await startFaultProxy(base)
  const iam = world.iam.controls

  const familyOf = (token: string) => {
    const family = iam.familyOf(token)
    if (family === undefined) throw new Error("no such family")
    return family
  }
  /** Refresh tokens of a family that the identity service exchanged. */
  const spent = (id: string) =>
    new Set(
      world.iam.seen
        .filter(({ path, status }) => path === "/api/v1/app-auth/tokens" && status === 200)
        .map(({ body }) => new URLSearchParams(body.toString("utf8")).get("refresh_token"))
        .filter((token) => token !== null && iam.familyOf(token)?.id === id)
    ).size

  const commands: Commands = {
    slt: (actor) => mintSlt(world, actor),
    testingKey: () => world.seeded.environment.musicSecret,
    fault: proxy.fault,
    clear: proxy.clear,
    attempts: (lane, path) => proxy.seen(lane, path).length,
    headers: (lane, path, name) =>
      proxy.seen(lane, path).map((headers) => String(headers[name] ?? "") || null),
    advance: clock.advance,
    family: (token) => {
      const family = familyOf(token)
      return { status: family.status, rotations: spent(family.id) }
    },
    revoke: (token) => {
      familyOf(token).status = "revoked"
    },
    tings: (key) => world.ting.accepted(production).filter((ting) => ting.key === key).length,
    rows: (table, id) => world.tables.rows(table).filter((row) => row.record_id === id).length
  }

  return {
    base: proxy.url,
    thorough: options.thorough,
    page: options.page,
    server: base,
    commands,
    // Each name has its own parameters, which a call through a name cannot show to the type checker.
    command: async (name, ...parameters) =>
      (commands[name] as (...given: ReadonlyArray<unknown>) => never)(...parameters),
    close: async () => {
      await proxy.close()
      await Effect.runPromise(Scope.close(scope, Exit.void))
    }
  }
}
