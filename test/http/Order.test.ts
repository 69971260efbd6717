import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { TestingSecretInvalid, Unauthenticated } from "../../src/schema/Failure.ts"
import {
  type Backend,
  backend,
  bearer,
  call,
  errorOf,
  good,
  keyed,
  parseRaw,
  raw,
  sharedBackend,
  testingSecret
} from "./support.ts"

interface Request {
  method: string
  path: string
  headers: Record<string, string>
  body: string
  chunked: boolean
}

interface Conditions {
  draining: boolean
  overloaded: boolean
  limited: boolean
  planeRefused: boolean
  bearerRefused: boolean
}

interface Fault {
  readonly name: string
  readonly code: string
  readonly corrupt?: (request: Request) => void
  readonly condition?: keyof Conditions
}

/** In the order of api.md, "Order of checks". */
const faults: ReadonlyArray<Fault> = [
  {
    name: "path",
    code: "not_found",
    corrupt: (request) => {
      request.path += "/nope"
    }
  },
  {
    name: "method",
    code: "method_not_allowed",
    corrupt: (request) => {
      request.method = "PUT"
    }
  },
  { name: "draining", code: "shutting_down", condition: "draining" },
  { name: "overloaded", code: "overloaded", condition: "overloaded" },
  {
    name: "media type",
    code: "unsupported_media_type",
    corrupt: ({ headers }) => {
      headers["content-type"] = "text/plain"
    }
  },
  {
    name: "declared length",
    code: "payload_too_large",
    corrupt: (request) => {
      request.body = `${request.body}${" ".repeat(600_000)}`
    }
  },
  {
    name: "idempotency key",
    code: "idempotency_key_invalid",
    corrupt: ({ headers }) => {
      headers["idempotency-key"] = "short"
    }
  },
  {
    name: "bearer shape",
    code: "unauthenticated",
    corrupt: ({ headers }) => {
      headers.authorization = "Bearer x"
    }
  },
  {
    name: "organisation",
    code: "invalid_input",
    corrupt: ({ headers }) => {
      headers["x-org-id"] = "A"
    }
  },
  {
    name: "plane selector",
    code: "testing_secret_invalid",
    corrupt: ({ headers }) => {
      headers["x-testing-environment-key"] = ""
    }
  },
  {
    name: "bound in chunks",
    code: "payload_too_large",
    corrupt: (request) => {
      request.body = `${request.body}${" ".repeat(600_000)}`
      request.chunked = true
    }
  },
  {
    name: "strict JSON",
    code: "invalid_input",
    corrupt: (request) => {
      request.body = `\ufeff${request.body}`
    }
  },
  {
    name: "schema",
    code: "invalid_input",
    corrupt: (request) => {
      request.body = request.body.replace("{", '{"unknown":1,')
    }
  },
  { name: "rate limit", code: "rate_limited", condition: "limited" },
  { name: "plane", code: "testing_secret_invalid", condition: "planeRefused" },
  { name: "bearer", code: "unauthenticated", condition: "bearerRefused" }
]

/** Faults that exclude each other. */
const exclusive = [
  ["draining", "overloaded"],
  ["declared length", "bound in chunks"]
]
const canBeCombined = (left: Fault, right: Fault) =>
  !exclusive.some((pair) => pair.includes(left.name) && pair.includes(right.name))

const requestOf = (fault: Fault, other: Fault): Request => {
  const conditions = [fault.condition, other.condition]
  const request: Request = {
    method: "POST",
    // A report takes a key as well as a bearer; only a ting checks the bearer before its use case.
    path: conditions.includes("bearerRefused") ? good.send.path : good.submit.path,
    headers: { ...keyed, ...bearer, "x-testing-environment-key": testingSecret },
    body: conditions.includes("bearerRefused") ? good.send.body : good.submit.body,
    chunked: false
  }
  fault.corrupt?.(request)
  other.corrupt?.(request)
  return request
}

/** The use cases that run before the fault is found. */
const reachedBy = ({ name }: Fault): ReadonlyArray<string> =>
  name === "plane" ? ["resolve"] : name === "bearer" ? ["resolve", "authenticate"] : []

/** One request a minute; the clock of the test does not move. */
const policies = {
  address: { name: "address", quota: 1, windowSeconds: 60 },
  credential: { name: "credential", quota: 1, windowSeconds: 60 }
}

/** Starts a server for each combination of the conditions that cannot change while a server runs. */
const makeServers = () => {
  const servers = new Map<string, Backend>()
  return (fault: Fault, other: Fault) =>
    Effect.gen(function* () {
      const has = (condition: keyof Conditions) =>
        fault.condition === condition || other.condition === condition
      const name = (["draining", "overloaded", "limited"] as const).filter(has).join()
      let server = servers.get(name)
      if (server === undefined) {
        server = yield* backend({
          settings: { rateLimit: has("limited") },
          policies,
          inFlight: has("overloaded") ? 0 : 1_000
        })
        if (has("limited")) yield* call(server, good.version)
        if (has("draining")) yield* server.drain.begin
        servers.set(name, server)
      }
      server.reached.length = 0
      server.during.resolve = has("planeRefused") ? Effect.fail(new TestingSecretInvalid()) : Effect.void
      server.during.authenticate = has("bearerRefused") ? Effect.fail(new Unauthenticated()) : Effect.void
      return server
    })
}

describe("Order of checks", () => {
  it.scoped(
    "every check takes precedence over each later one, and no use case runs",
    function* () {
      const serverFor = makeServers()
      for (const [at, fault] of faults.entries()) {
        for (const other of faults.slice(at).filter((later) => canBeCombined(fault, later))) {
          // A ting has no key.
          if (fault.name === "idempotency key" && other.name === "bearer") continue
          const request = requestOf(fault, fault === other ? { name: "none", code: "" } : other)
          const server = yield* serverFor(fault, other)
          const { body, chunked, ...sent } = request
          const answer = yield* call(server, chunked ? { ...sent, chunks: [body] } : { ...sent, body })
          expect([fault.name, other.name, errorOf(answer).code]).toEqual([fault.name, other.name, fault.code])
          const reached = server.reached.map(({ useCase }) => useCase)
          expect([fault.name, other.name, reached]).toEqual([fault.name, other.name, reachedBy(fault)])
          if (fault.condition === "draining") expect(answer.headers.connection).toBe("close")
        }
      }
    },
    60_000
  )

  it.scoped("the Host header is checked before everything else", function* () {
    const server = yield* backend()
    yield* server.drain.begin
    for (const [method, path] of [
      ["GET", "/nope"],
      ["PUT", good.login.path],
      ["GET", good.version.path]
    ]) {
      const answer = parseRaw(yield* raw(server, `${method} ${path} HTTP/1.1\r\nConnection: close\r\n\r\n`))
      expect([path, answer.status, errorOf(answer).details?.fields?.map((field) => field.path)]).toEqual([
        path,
        400,
        ["Host"]
      ])
    }
  })

  it.scoped("names the fault in the details, of two with one status", function* () {
    const server = yield* sharedBackend
    const organisation = yield* call(server, {
      ...good.submit,
      headers: { ...keyed, ...bearer, "x-org-id": "A" },
      body: '{"unknown":1}'
    })
    expect(errorOf(organisation).details?.fields?.map(({ path }) => path)).toEqual(["X-Org-ID"])
    const grammar = yield* call(server, { ...good.submit, body: '{"unknown":1' })
    expect(errorOf(grammar).details?.fields?.map(({ path }) => path)).toEqual(["body"])
  })
})
