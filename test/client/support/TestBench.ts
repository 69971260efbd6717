/**
 * The sandbox behind a proxy with faults, and what the systems behind it know. The first part of a path names a lane: faults and counts
 * belong to one lane, so that many clients can be tested at once.
 */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { production } from "../../../sandbox/upstreams/Iam.ts"
import { mintSlt } from "../../../sandbox/SimulatedUpstreams.ts"
import { startTestSandboxWith } from "../../world/Sandbox.ts"
import { type Answer, type Fault, startFaulty } from "./Faulty.ts"

const page = (status: number, headers: Answer["headers"] = {}): Fault => ({
  status,
  headers: { "content-type": "text/html", "access-control-allow-origin": "*", ...headers },
  body: () => `<html><body>${status} from something in between</body></html>`
})

/** `after`: the server has acted, only its answer is lost or replaced. */
const faults = {
  "cut-within": { instead: "cut within" },
  "html-502-after": page(502),
  /** To where the server would answer the call. */
  "redirect-of-me": { before: true, ...page(307, { location: "/redirected/api/v1/auth/me" }) }
} as const satisfies Readonly<Record<string, Fault>>

type FaultKind = keyof typeof faults

const ofConnection = new Set(["connection", "host", "keep-alive", "transfer-encoding"])
const ofBody = new Set(["content-encoding", "content-length"])
const forwarded = (headers: object) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !ofConnection.has(name) && !ofBody.has(name)))

export const startTestBench = async () => {
  const scope = Effect.runSync(Scope.make())
  const { base, clock, world } = await Effect.runPromise(
    Scope.extend(startTestSandboxWith({ iamCallsPerMinute: 10_000 }), scope)
  )
  const arrived: Array<{ readonly place: string; readonly headers: IncomingHttpHeaders }> = []
  const planned: Array<{ readonly place: string; readonly fault: Fault }> = []
  const forward = async ({ headers, method = "GET", url = "" }: IncomingMessage, sent: string) => {
    const path = url.replace(/^\/[^/]+/, "")
    const body = sent === "" ? null : sent
    const given = { method, headers: forwarded(headers), body, redirect: "manual" } as const
    const answer = await fetch(`${base}${path}`, given)
    return {
      status: answer.status,
      headers: forwarded(Object.fromEntries(answer.headers)),
      body: await answer.text()
    }
  }
  const { close, url } = await startFaulty(forward, ({ headers, method, url: place = "" }) => {
    // A preflight.
    if (method === "OPTIONS") return undefined
    arrived.push({ place, headers })
    const at = planned.findIndex((one) => one.place === place)
    return at === -1 ? undefined : planned.splice(at, 1)[0]?.fault
  })

  const seen = (lane: string, path: string) => arrived.filter(({ place }) => place === `/${lane}${path}`)

  return {
    /** Address of the proxy; the first part of a path names a lane. */
    base: url,
    /** The next answer to a path of a lane meets this fault. */
    fault: (lane: string, kind: FaultKind, path: string) =>
      void planned.push({ place: `/${lane}${path}`, fault: faults[kind] }),
    /** A short-lived token. */
    slt: (): string => mintSlt(world),
    /** How many requests of a lane and path arrived at the proxy. */
    attempts: (lane: string, path: string): number => seen(lane, path).length,
    /** One header of every such request. */
    headers: (lane: string, path: string, name: string): ReadonlyArray<string | null> =>
      seen(lane, path).map(({ headers }) => String(headers[name] ?? "") || null),
    /** Moves the clock of the server and the identity service. */
    advance: (milliseconds: number): void => clock.advance(milliseconds),
    /** Tings accepted under a key. */
    tings: (key: string): number => world.ting.accepted(production).filter((ting) => ting.key === key).length,
    /** How many rows of a table have this record id. */
    rows: (table: string, id: string): number =>
      world.tables.rows(table).filter((row) => row.record_id === id).length,
    close: async () => {
      close()
      await Effect.runPromise(Scope.close(scope, Exit.void))
    }
  }
}

export type TestBench = Awaited<ReturnType<typeof startTestBench>>
