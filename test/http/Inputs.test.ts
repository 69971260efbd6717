/** The table of inputs: each by itself and in pairs, and what the refusals say. */
import { expect } from "vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { signWebhook } from "../../sandbox/upstreams/Iam.ts"
import { nestingLimit } from "../../src/schema/BodyLimits.ts"
import { operations } from "../world/Contract.ts"
import { testTracker, testWebhookSecret } from "../world/Settings.ts"
import {
  bodyCases,
  bodyInputs,
  type Facts,
  frameInputs,
  headInputs,
  type Input,
  lineInputs,
  type Message,
  type Outcome,
  outcomeOf as promised,
  refused,
  steps,
  writeMessage
} from "../world/Inputs.ts"
import { RawConnection } from "../world/RawHttp.ts"
import { it as single, sharing } from "../world/Test.ts"
import { nameOf } from "./Documented.ts"
import type { Answer } from "../world/Driver.ts"
import {
  type Backend,
  backend,
  type CallName,
  errorOf,
  expectEnvelope,
  freshKey,
  type Good,
  goodRequests,
  outcomeOf,
  type Sent,
  shared,
  sharedInMemory,
  sharedOnSocket,
  withHeaders,
  withKeys,
  withPlane
} from "./support.ts"

// It begins with no digit of a short escape.
const canary = "wordcanary"

let made = 0
/** A request of a call that was never sent, so that no other one has its key. The texts of the caller have the canary. */
const freshRequest = (name: CallName, good: Good): Sent => {
  made += 1
  const bodies: Partial<Record<CallName, object>> = {
    submit: { message: `Playback ${canary} ${made}.` },
    send: { type: "music.trigger.fired", key: `si:deejay/${made}`, data: { text: canary } },
    accept: { table: "musicclidaemon", events: [{ text: canary }] }
  }
  const body = bodies[name]
  const sent: Sent = { ...good[name], ...(body === undefined ? {} : { body: JSON.stringify(body) }) }
  return withHeaders(name === "submit" ? { ...good.me.headers, ...freshKey() } : {})(sent)
}

const messageOf = ({ body, headers = {}, method = "GET", path }: Sent): Message => ({
  method,
  target: path,
  version: "1.1",
  headers: [["Host", "a"], ...Object.entries(headers).map(([name, value]) => [name, String(value)] as const)],
  body: body === undefined ? undefined : Buffer.from(body),
  framing: { kind: "length" },
  lines: [],
  verbatim: undefined,
  last: false,
  halfClose: false
})

const webOrigin = "https://music.example"

const factsOf = (name: CallName, server: Backend, good: Good, now: number): Facts => {
  const call = operations.find(({ id }) => nameOf(id) === name)
  if (call === undefined) throw new Error(name)
  const { environment, production } = server.upstreams.seeded
  return {
    call,
    plane: "production",
    actor: "si:deejay",
    access: good.me.headers.authorization.slice("Bearer ".length),
    testingSecret: environment.musicSecret,
    otherSecrets: [environment.tingSecret, production.musicSecret, environment.rootKey],
    webOrigin,
    word: () => canary,
    now,
    place: 0.5
  }
}

/** The first answer to the bytes of a message. */
const play = ({ port }: Backend, message: Message): Effect.Effect<Answer | undefined> =>
  Effect.promise(async () => {
    const connection = await RawConnection.open(port)
    const { answers } = await connection.exchange({
      pieces: [writeMessage(message)],
      methods: [message.method],
      last: message.last,
      halfClose: message.halfClose
    })
    connection.close()
    const [answer] = answers
    return answer && { ...answer, headers: Object.fromEntries(answer.headers), text: answer.body.toString() }
  })

const isBeforeCalls = (outcome: Outcome) =>
  outcome.kind === "refused" && steps.indexOf(outcome.step) < steps.indexOf("plane")

/** Compares an answer with its promise, and what it left behind. */
const judge = (
  server: Backend,
  title: string,
  wanted: Outcome,
  answer: Answer | undefined,
  method: string
) => {
  if (wanted.kind === "open") return
  if (answer === undefined) throw new Error(`${title}: no answer`)
  if (wanted.kind !== "refused") {
    expect([title, answer.status < 300, answer.text]).toEqual([title, true, answer.text])
    expect([title, answer.headers.allow !== undefined]).toEqual([title, wanted.kind === "options"])
    return
  }
  if (method === "HEAD") return expect([title, answer.status]).toEqual([title, wanted.status])
  expect([title, outcomeOf(answer)]).toEqual([title, wanted.code])
  expectEnvelope(answer, wanted.status, wanted.code)
  const challenge = wanted.code === "unauthenticated" ? "Bearer" : undefined
  expect([title, answer.headers["www-authenticate"]]).toEqual([title, challenge])
  expect([title, answer.text]).toEqual([title, expect.not.stringContaining("wordcan")])
  if (isBeforeCalls(wanted)) {
    const id = answer.headers["x-request-id"]
    const logged = server.lines.filter(
      ({ fields }) => fields.request_id === id && fields.status === wanted.status
    )
    expect([title, logged.length, server.reached, server.upstreams.calls]).toEqual([title, 1, [], []])
  }
  if (wanted.says !== undefined) {
    const [path, problem] = wanted.says
    const first = errorOf(answer).details?.fields?.[0]
    expect([title, first]).toEqual([title, { path, problem: expect.stringContaining(problem) }])
  }
}

const inputs = [...headInputs, ...bodyInputs, ...lineInputs, ...frameInputs]
/** A call that has what an input changes. */
const fitting = ({ name }: Input): CallName =>
  name.startsWith("x-silicon") ? "receive" : name.startsWith("origin") ? "accept" : "submit"
/** Inputs that mean something at every call that has what they change. */
const everywhere =
  /^(?:idempotency-key|authorization|x-org-id|x-testing-environment-key|content-type): (?:left out|and an empty one)|of other calls/

/** Reports name pull requests of the tracker's repository. */
const settings = { webOrigins: [webOrigin], reportsBytes: 1e9, tracker: Option.some(testTracker) }

sharing(sharedOnSocket({ settings }))("An input", (it) => {
  it.effect("by itself has its promised answer; a refused one reaches and shows nothing", function* () {
    const server = yield* shared
    const good = yield* goodRequests(server)
    const now = Math.floor((yield* Effect.clock).unsafeCurrentTimeMillis() / 1_000)
    const names = Object.keys(good) as ReadonlyArray<CallName>
    const check = (name: CallName, title: string, wanted: Outcome, message: Message) =>
      Effect.gen(function* () {
        for (const list of [server.reached, server.lines, server.upstreams.calls]) list.length = 0
        judge(server, `${name}: ${title}`, wanted, yield* play(server, message), message.method)
        expect([title, JSON.stringify(server.lines)]).toEqual([title, expect.not.stringContaining("wordcan")])
      })
    for (const input of inputs)
      for (const name of everywhere.test(input.name) ? names : [fitting(input)]) {
        const facts = factsOf(name, server, good, now)
        const message = messageOf(freshRequest(name, good))
        const changed = input.change(message, facts)
        if (changed !== undefined) yield* check(name, input.name, promised(input, facts, message), changed)
      }
    for (const { call, member, name: title, outcome, value } of bodyCases) {
      const name = nameOf(call)
      const message = messageOf(
        withHeaders(withKeys.includes(name) ? freshKey() : {})(freshRequest(name, good))
      )
      const facts = factsOf(name, server, good, now)
      const body = { ...JSON.parse(String(message.body)), [member]: value(facts) }
      yield* check(name, title, outcome, { ...message, body: Buffer.from(JSON.stringify(body)) })
    }
  })
})

type Condition = "draining" | "overloaded" | "limited"

const byName = (name: string): Input => {
  const found = inputs.find((input) => input.name === name)
  if (found === undefined) throw new Error(name)
  return found
}
const long = (name: string, step: "declared length" | "size", framing: Message["framing"]): Input => {
  const surplus = Buffer.alloc(600_000, " ")
  const change = ({ body = Buffer.of(), ...message }: Message) => ({
    ...message,
    framing,
    body: Buffer.concat([body, surplus]),
    last: true
  })
  return { name, parts: [], outcome: refused(step, 413, "payload_too_large"), change }
}

/** A fault of every check, in the order of docs/api.md ("Order of checks"). */
const faults: ReadonlyArray<Input | readonly [Condition, status: number, code: string]> = [
  byName('Host: ["a.example","evil.example"]'),
  byName("path with a word"),
  byName("method PUT"),
  ["draining", 503, "shutting_down"],
  ["overloaded", 503, "overloaded"],
  byName('content-type: "text/plain"'),
  long("too long", "declared length", { kind: "raw", lines: ["Content-Length: 600000"], bytes: Buffer.of() }),
  byName("idempotency-key: 15 characters"),
  byName("authorization: 27 characters"),
  byName('x-org-id: "ACME"'),
  byName('x-testing-environment-key: ""'),
  long("too long in chunks", "size", { kind: "chunked", extension: "", trailer: "" }),
  byName("body: a byte order mark"),
  byName('body: {"constructor":{"prototype":{}}}'),
  ["limited", 429, "rate_limited"],
  byName("x-testing-environment-key: 43 characters"),
  byName("authorization: another token")
]
const conditionOf = (fault: (typeof faults)[number]) => ("change" in fault ? [] : [fault[0]])

/** One request a minute; the clock of the test does not move. */
const policies = {
  address: { name: "address", quota: 1, windowSeconds: 60 },
  credential: { name: "credential", quota: 1, windowSeconds: 60 }
}

single.scoped("Of two faults that of the earlier check is answered, and nothing is reached", function* () {
  const servers = new Map<string, { readonly server: Backend; readonly good: Good }>()
  const serverUnder = (given: ReadonlyArray<Condition>) =>
    Effect.gen(function* () {
      const known = servers.get(given.join())
      if (known !== undefined) return known
      const settings = { rateLimit: given.includes("limited") }
      const inFlight = given.includes("overloaded") ? 0 : 1_000
      const server = yield* backend({ settings, bounds: { ...policies, inFlight } })
      const good = yield* goodRequests(server)
      if (given.includes("limited")) yield* server.send(good.version)
      if (given.includes("draining")) yield* server.drain.begin
      servers.set(given.join(), { server, good })
      return { server, good }
    })
  // Each by itself, and with the next one.
  for (const [at, fault] of faults.entries())
    for (const both of [[fault], faults.slice(at, at + 2)]) {
      const { good, server } = yield* serverUnder(both.flatMap(conditionOf))
      for (const list of [server.reached, server.lines, server.upstreams.calls]) list.length = 0
      const facts = factsOf("submit", server, good, 0)
      // The earlier fault is made last, so that it holds where both change one part.
      const message = both.reduceRight(
        (changed, one) => ("change" in one ? (one.change(changed, facts) ?? changed) : changed),
        messageOf(freshRequest("submit", good))
      )
      const wanted =
        "change" in fault ? promised(fault, facts, message) : refused("method", fault[1], fault[2])
      const title = both.map((one) => ("change" in one ? one.name : one[0])).join(", ")
      const answer = yield* play(server, message)
      judge(server, title, wanted, answer, message.method)
      if (conditionOf(fault).includes("draining")) expect(answer?.headers.connection).toBe("close")
    }
})

const attachment = { name: "a", content: "b" }
const message = "x".repeat(10)

const unknown = "is not a known field"
const hidden = "(name not shown)"

/** Bodies that do not fit: the call, the body, and all problems by path. */
const misfits: ReadonlyArray<readonly [CallName, unknown, Readonly<Record<string, string>>]> = [
  ["login", {}, { slt: "is missing" }],
  ["login", { slt: "a", [`oat_${canary.repeat(3)}`]: 1, "\u001b[31mred": 1 }, { [hidden]: unknown }],
  ["login", { slt: "a", ["x".repeat(65)]: 1 }, { [hidden]: unknown }],
  ["login", { slt: `${canary} ` }, { slt: "must be 1 to 8192 visible ASCII characters" }],
  ["subscribe", [], { body: "must be an object" }],
  ["send", { type: 1, for: "a", data: {} }, { for: unknown, type: "a string", key: "is missing" }],
  ["accept", { table: canary, events: [] }, { events: "must hold 1 to 40 events" }],
  ["accept", { table: "t", events: [{}, canary] }, { "events.1": "must be an object" }],
  ["submit", { message: "  short ", pr: canary }, { message: "10 to 20,000", pr: "URL of a pull request" }],
  ["submit", { message, attachments: [{ ...attachment, size: canary }] }, { "attachments.0.size": unknown }]
]

sharing(sharedInMemory())("A body", (it) => {
  it.effect("that does not fit has its problems by field, with no part of a value", function* () {
    const server = yield* shared
    const good = yield* goodRequests(server)
    for (const [call, body, fields] of misfits) {
      const answer = yield* server.send({ ...good[call], body: JSON.stringify(body) })
      expect(outcomeOf(answer)).toBe("invalid_input")
      const found = errorOf(answer).details?.fields?.map(({ path, problem }) => [path, problem]) ?? []
      const wanted = Object.entries(fields).map(([path, said]) => [path, expect.stringContaining(said)])
      expect([call, Object.fromEntries(found)]).toEqual([call, Object.fromEntries(wanted)])
      expect(answer.text).not.toContain("wordcan")
    }
    expect(server.reached).toEqual([])
  })

  it.effect("lists at most 20 fields, and of 4 KiB or more only the first", function* () {
    const server = yield* shared
    const { login, submit } = yield* goodRequests(server)
    const many = Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`f${at}`, at]))
    const listed = yield* server.send({ ...login, body: JSON.stringify(many) })
    expect(errorOf(listed).details?.fields?.length).toBe(20)
    for (const [bytes, problems] of [
      [4_095, 2],
      [4_096, 1]
    ] as const) {
      const body = JSON.stringify({ message: "short", surplus: 1 }).padEnd(bytes)
      const answer = yield* server.send({ ...submit, body })
      expect([bytes, errorOf(answer).details?.fields?.length]).toEqual([bytes, problems])
    }
  })

  it.effect("of the webhook may nest 64 levels: to write more again would end the stack", function* () {
    const server = yield* shared
    const { receive } = yield* goodRequests(server)
    for (const [levels, outcome] of [
      [nestingLimit - 2, 200],
      [nestingLimit - 1, "invalid_input"],
      [100_000, "invalid_input"]
    ] as const) {
      const deep = `"data":{"deep":${"[".repeat(levels)}1${"]".repeat(levels)},`
      const body = receive.body.replace('"data":{', deep)
      const timestamp = receive.headers["x-silicon-iam-timestamp"] ?? ""
      const signature = signWebhook(testWebhookSecret, timestamp, Buffer.from(body))
      const sent = withHeaders({ "x-silicon-iam-signature": signature })({ ...receive, body })
      expect([levels, outcomeOf(yield* server.send(sent))]).toEqual([levels, outcome])
    }
  })
})

sharing(sharedInMemory())("The selector of a testing plane", (it) => {
  it.effect("selects the plane of every call that reads it, and is ignored by all others", function* () {
    const server = yield* shared
    const good = yield* goodRequests(server)
    const { environmentId, musicSecret } = server.upstreams.seeded.environment
    for (const [name, sent] of Object.entries(good)) {
      server.reached.length = 0
      const answer = yield* server.send(withHeaders({ "x-testing-environment-key": musicSecret })(sent))
      const inPlane = withPlane.includes(name as CallName)
      expect([name, server.reached.some(({ useCase }) => useCase === "resolve")]).toEqual([name, inPlane])
      if (!inPlane) {
        expect([name, answer.status]).toEqual([name, 200])
        expect((yield* server.send(withHeaders({ "x-testing-environment-key": "" })(sent))).status).toBe(200)
      }
      const plane = server.reached.find(({ useCase }) => !["resolve", "readiness"].includes(useCase))
        ?.input[0]
      if (name === "iam") expect(answer.text).toContain(environmentId)
      else if (inPlane) expect([name, plane]).toMatchObject([name, { _tag: "Testing", environmentId }])
    }
  })
})
