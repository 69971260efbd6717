/**
 * The sandbox behind a simulator that hands on to it, for its journal and its faults, and what the systems behind it know. The first part of
 * a path names a lane: faults and counts belong to one lane, so that many clients can be tested at once.
 */
import { Effect, Exit, Scope } from "effect"
import { production } from "../../../sandbox/upstreams/Iam.ts"
import {
  type Fault,
  headerOf,
  type Reply,
  type Seen,
  startSimulator
} from "../../../sandbox/upstreams/Simulator.ts"
import { mintSlt } from "../../../sandbox/SimulatedUpstreams.ts"
import { startTestSandboxWith } from "../../world/Sandbox.ts"

const ofConnection = new Set(["connection", "host", "keep-alive", "transfer-encoding"])
const ofBody = new Set(["content-encoding", "content-length"])
const forwarded = (headers: Iterable<readonly [string, string | ReadonlyArray<string>]>) =>
  Object.fromEntries(
    [...headers]
      .filter(([name]) => !ofConnection.has(name) && !ofBody.has(name))
      .map(([name, values]) => [name, String(values)])
  )

export const startTestBench = async () => {
  const scope = Effect.runSync(Scope.make())
  const { base, clock, world } = await Effect.runPromise(
    Scope.extend(startTestSandboxWith({ iamCallsPerMinute: 10_000 }), scope)
  )
  const handle = async ({ body: sent, headers, method, path, query }: Seen): Promise<Reply> => {
    const body = sent.length === 0 ? null : new Uint8Array(sent)
    const given = { method, headers: forwarded(headers), body, redirect: "manual" } as const
    const answer = await fetch(`${base}${path.replace(/^\/[^/]+/, "")}?${query}`, given)
    return { status: answer.status, headers: forwarded(answer.headers), body: await answer.text() }
  }
  const proxy = await startSimulator({ now: Date.now, handle })
  // Without preflights.
  const seen = (lane: string, wanted: string) =>
    proxy.seen.filter(({ method, path }) => method !== "OPTIONS" && path === `/${lane}${wanted}`)

  return {
    /** Address of the proxy; the first part of a path names a lane. */
    base: proxy.url,
    /** The next answer to a route, such as `GET /healthz`, of a lane meets this fault. */
    fault: (lane: string, route: string, fault: Fault) => {
      const [method = "", path = ""] = route.split(" ")
      proxy.fail({ method, path: `/${lane}${path}`, fault })
    },
    /** A short-lived token. */
    slt: (): string => mintSlt(world),
    /** How many requests of a lane and path arrived at the proxy. */
    attempts: (lane: string, path: string): number => seen(lane, path).length,
    /** One header of every such request. */
    headers: (lane: string, path: string, name: string): ReadonlyArray<string | null> =>
      seen(lane, path).map((request) => headerOf(request, name) ?? null),
    /** Moves the clock of the server and the identity service. */
    advance: (milliseconds: number): void => clock.advance(milliseconds),
    /** Tings accepted under a key. */
    tings: (key: string): number => world.ting.accepted(production).filter((ting) => ting.key === key).length,
    /** How many rows of a table have this record id. */
    rows: (table: string, id: string): number =>
      world.tables.rows(table).filter((row) => row.record_id === id).length,
    close: async () => {
      await proxy.close()
      await Effect.runPromise(Scope.close(scope, Exit.void))
    }
  }
}

export type TestBench = Awaited<ReturnType<typeof startTestBench>>
