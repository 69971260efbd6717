/** The sandbox behind a fault proxy, and what the systems behind it know. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { production } from "../../../sandbox/upstreams/Iam.ts"
import { mintSlt } from "../../../sandbox/SimulatedUpstreams.ts"
import { startTestSandboxWith } from "../../world/Sandbox.ts"
import { startFaultProxy } from "./FaultProxy.ts"

export const startTestBench = async () => {
  const scope = Effect.runSync(Scope.make())
  const { base, clock, world } = await Effect.runPromise(
    Scope.extend(startTestSandboxWith({ iamCallsPerMinute: 10_000 }), scope)
  )
  const { clear, close, fault, seen, url } = await startFaultProxy(base)
  const { controls } = world.iam
  const tokenOf = (body: Uint8Array) => new URLSearchParams(Buffer.from(body).toString()).get("refresh_token")
  /** Refresh tokens of a family that the identity service exchanged. */
  const spent = (id: string) =>
    new Set(
      world.iam.seen
        .filter(({ path, status }) => path === "/api/v1/app-auth/tokens" && status === 200)
        .map(({ body }) => tokenOf(body) ?? "")
        .filter((token) => controls.familyOf(token)?.id === id)
    ).size

  return {
    /** Address of the proxy; the first part of a path names a lane. */
    base: url,
    fault,
    clear,
    /** A short-lived token. */
    slt: (): string => mintSlt(world),
    testingKey: world.seeded.environment.musicSecret,
    /** How many requests of a lane and path arrived at the proxy. */
    attempts: (lane: string, path: string): number => seen(lane, path).length,
    /** One header of every such request. */
    headers: (lane: string, path: string, name: string): ReadonlyArray<string | null> =>
      seen(lane, path).map((headers) => String(headers[name] ?? "") || null),
    /** Moves the clock of the server and the identity service. */
    advance: (milliseconds: number): void => clock.advance(milliseconds),
    /** State of the family that a token belongs to, and how many of its refresh tokens were spent. */
    family: (token: string) => {
      const { id, status } = controls.familyOf(token) ?? { id: "", status: "no such family" }
      return { status, rotations: spent(id) }
    },
    /** Tings accepted under a key. */
    tings: (key: string): number => world.ting.accepted(production).filter((ting) => ting.key === key).length,
    /** How many rows of a table have this record id. */
    rows: (table: string, id: string): number =>
      world.tables.rows(table).filter((row) => row.record_id === id).length,
    close: async () => {
      await close()
      await Effect.runPromise(Scope.close(scope, Exit.void))
    }
  }
}

export type TestBench = Awaited<ReturnType<typeof startTestBench>>
