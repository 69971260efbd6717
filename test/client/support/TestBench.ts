/** The sandbox behind a fault proxy, and the commands that scenarios give it. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { production } from "../../../sandbox/upstreams/Iam.ts"
import { mintSlt } from "../../../sandbox/SimulatedUpstreams.ts"
import { startTestSandboxWith } from "../../world/Sandbox.ts"
import type { Bench, FaultRule } from "../suite/Bench.ts"
import { startFaultProxy } from "./FaultProxy.ts"

export type Commands = Awaited<ReturnType<typeof startCommands>>["commands"]

const startCommands = async () => {
  const scope = Effect.runSync(Scope.make())
  const { base, clock, world } = await Effect.runPromise(
    Scope.extend(startTestSandboxWith({ iamCallsPerMinute: 10_000 }), scope)
  )
  const proxy = await startFaultProxy(base)

  const familyOf = (token: string) => {
    const family = world.iam.controls.familyOf(token)
    if (family === undefined) throw new Error("no such family")
    return family
  }
  const tokenOf = (body: Uint8Array) => new URLSearchParams(Buffer.from(body).toString()).get("refresh_token")
  /** Refresh tokens of a family that the identity service exchanged. */
  const spent = (id: string) =>
    new Set(
      world.iam.seen
        .filter(({ path, status }) => path === "/api/v1/app-auth/tokens" && status === 200)
        .map(({ body }) => tokenOf(body) ?? "")
        .filter((token) => world.iam.controls.familyOf(token)?.id === id)
    ).size

  return {
    base: proxy.url,
    commands: {
      /** A short-lived token. */
      slt: (actor?: string): string => mintSlt(world, actor),
      testingKey: (): string => world.seeded.environment.musicSecret,
      fault: (rule: FaultRule): void => proxy.fault(rule),
      clear: (lane: string): void => proxy.clear(lane),
      /** How many requests of a lane and path arrived at the proxy. */
      attempts: (lane: string, path: string): number => proxy.seen(lane, path).length,
      /** One header of every such request. */
      headers: (lane: string, path: string, name: string): ReadonlyArray<string | null> =>
        proxy.seen(lane, path).map((headers) => String(headers[name] ?? "") || null),
      /** Moves the clock of the server and the identity service. */
      advance: (milliseconds: number): void => clock.advance(milliseconds),
      /** State of the family that a token belongs to, and how many of its refresh tokens were spent. */
      family: (token: string): { readonly status: string; readonly rotations: number } => {
        const { id, status } = familyOf(token)
        return { status, rotations: spent(id) }
      },
      /** Tings accepted under a key. */
      tings: (key: string): number =>
        world.ting.accepted(production).filter((ting) => ting.key === key).length,
      /** How many rows of a table have this record id. */
      rows: (table: string, id: string): number =>
        world.tables.rows(table).filter((row) => row.record_id === id).length
    },
    close: async () => {
      await proxy.close()
      await Effect.runPromise(Scope.close(scope, Exit.void))
    }
  }
}

export const startTestBench = async (options = { thorough: true, page: false }) => {
  const started = await startCommands()
  const command: Bench["command"] = async (name, ...parameters) =>
    // Each name has its own parameters, which a call through a name cannot show to the type checker.
    (started.commands[name] as (...given: ReadonlyArray<unknown>) => never)(...parameters)
  return { ...started, ...options, command }
}

export type TestBench = Awaited<ReturnType<typeof startTestBench>>
