import { describe, expect } from "vitest"
import * as Effect from "effect/Effect"
import { it } from "../world/Test.ts"
import {
  type Backend,
  type Change,
  errorOf,
  goodRequests,
  inMemory,
  outcomeOf,
  backend,
  type Sent,
  used,
  withHeaders
} from "./support.ts"

const conditions = ["draining", "overloaded", "limited"] as const
type Condition = (typeof conditions)[number]

interface Fault {
  readonly name: string
  readonly code: string
  readonly path?: string
  readonly corrupt?: Change
  readonly condition?: Condition
}

const body =
  (change: (text: string) => string): Change =>
  (sent) => ({ ...sent, body: change(String(sent.body)) })

/** In the order of api.md, "Order of checks". */
const faults: ReadonlyArray<Fault> = [
  { name: "host", code: "invalid_input", path: "Host", corrupt: withHeaders({ host: ["a", "b"] }) },
  { name: "path", code: "not_found", corrupt: (sent) => ({ ...sent, path: `${sent.path}/nope` }) },
  { name: "method", code: "method_not_allowed", corrupt: (sent) => ({ ...sent, method: "PUT" }) },
  { name: "draining", code: "shutting_down", condition: "draining" },
  { name: "overloaded", code: "overloaded", condition: "overloaded" },
  {
    name: "media type",
    code: "unsupported_media_type",
    corrupt: withHeaders({ "content-type": "text/plain" })
  },
  {
    name: "declared length",
    code: "payload_too_large",
    corrupt: withHeaders({ "content-length": "600000" })
  },
  {
    name: "idempotency key",
    code: "idempotency_key_invalid",
    corrupt: withHeaders({ "idempotency-key": "short" })
  },
  { name: "bearer's form", code: "unauthenticated", corrupt: withHeaders({ authorization: "Bearer x" }) },
  {
    name: "organisation",
    code: "invalid_input",
    path: "X-Org-ID",
    corrupt: withHeaders({ "x-org-id": "A" })
  },
  {
    name: "selector's form",
    code: "testing_secret_invalid",
    corrupt: withHeaders({ "x-testing-environment-key": "" })
  },
  {
    name: "bound in chunks",
    code: "payload_too_large",
    corrupt: ({ body = "", ...sent }) => ({ ...sent, chunks: [String(body), " ".repeat(600_000)] })
  },
  { name: "strict JSON", code: "invalid_input", path: "body", corrupt: body((text) => `\ufeff${text}`) },
  {
    name: "schema",
    code: "invalid_input",
    path: "unknown",
    corrupt: body((text) => text.replace("{", '{"unknown":1,'))
  },
  { name: "rate limit", code: "rate_limited", condition: "limited" },
  {
    name: "plane",
    code: "testing_secret_invalid",
    corrupt: withHeaders({ "x-testing-environment-key": `ask_${"x".repeat(43)}` })
  },
  {
    name: "bearer",
    code: "unauthenticated",
    corrupt: withHeaders({ authorization: `Bearer oat_${"x".repeat(43)}` })
  }
]

/** Faults that exclude each other: of one header, of one body, of one process. */
const exclusive = [
  ["draining", "overloaded"],
  // The client of a socket sends one.
  ["host", "bound in chunks"],
  ["declared length", "bound in chunks"],
  ["bearer's form", "bearer"],
  ["selector's form", "plane"]
]
const canBeCombined = (left: Fault, right: Fault) =>
  !exclusive.some((pair) => pair.includes(left.name) && pair.includes(right.name))

/** One request a minute; the clock of the test does not move. */
const policies = {
  address: { name: "address", quota: 1, windowSeconds: 60 },
  credential: { name: "credential", quota: 1, windowSeconds: 60 }
}

/** Starts a server for each set of conditions, and prepares a report, or a ting, which needs its bearer before its use case. */
const makeServers = () => {
  const servers = new Map<string, { server: Backend; report: Sent; ting: Sent }>()
  return (given: ReadonlyArray<Condition>, onSocket: boolean) =>
    Effect.gen(function* () {
      const name = [onSocket, ...given].join()
      const found = servers.get(name)
      if (found !== undefined) return found
      const server = yield* (onSocket ? backend : inMemory)({
        settings: { rateLimit: given.includes("limited") },
        policies,
        inFlight: given.includes("overloaded") ? 0 : 1_000
      })
      const { me, send, submit, version } = yield* goodRequests(server)
      if (given.includes("limited")) yield* server.send(version)
      if (given.includes("draining")) yield* server.drain.begin
      const signed = withHeaders(me.headers)
      const made = { server, report: signed(submit), ting: signed(send) }
      servers.set(name, made)
      return made
    })
}

describe("Order of checks", () => {
  it.scoped(
    "every check takes precedence over each later one, and no use case runs",
    function* () {
      const serverFor = makeServers()
      for (const [at, fault] of faults.entries())
        for (const other of faults.slice(at).filter((later) => canBeCombined(fault, later))) {
          const both = fault === other ? [fault] : [fault, other]
          // A ting has no key.
          if (fault.name === "idempotency key" && other.name === "bearer") continue
          const given = conditions.filter((name) => both.some(({ condition }) => condition === name))
          const chunked = both.filter(({ name }) => name === "bound in chunks")
          const { report, server, ting } = yield* serverFor(given, chunked.length > 0)
          server.reached.length = 0
          server.upstreams.seen.length = 0
          // The body is cut into chunks when it has its other faults.
          const sent = [...both.filter((one) => !chunked.includes(one)), ...chunked].reduce(
            (made, { corrupt = (same) => same }) => corrupt(made),
            both.some(({ name }) => name === "bearer") ? ting : report
          )
          const answer = yield* server.send(sent)
          const said = [
            outcomeOf(answer),
            ...(fault.path === undefined ? [] : [errorOf(answer).details?.fields?.map(({ path }) => path)[0]])
          ]
          expect([fault.name, other.name, ...said]).toEqual([
            fault.name,
            other.name,
            fault.code,
            ...(fault.path === undefined ? [] : [fault.path])
          ])
          const asked = fault.name === "bearer" || fault.name === "plane"
          expect([fault.name, other.name, used(server)]).toEqual([
            fault.name,
            other.name,
            fault.name === "bearer" ? ["authenticate"] : []
          ])
          if (!asked)
            expect([fault.name, other.name, server.upstreams.seen.length]).toEqual([
              fault.name,
              other.name,
              0
            ])
          if (fault.condition === "draining") expect(answer.headers.connection).toBe("close")
        }
    },
    60_000
  )
})
