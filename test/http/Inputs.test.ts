/** The table of inputs: each by itself and in the order of checks, and what the refusals say. */
import { afterAll, beforeAll, describe, expect } from "vitest"
import { Effect, FastCheck } from "effect"
import { signWebhook } from "../../sandbox/upstreams/Iam.ts"
import { nestingLimit } from "../../src/schema/BodyLimits.ts"
import { checkAnswer } from "../proof/fuzz/Laws.ts"
import { Ledger } from "../proof/fuzz/Ledger.ts"
import { type Recipe, recipeOf } from "../proof/fuzz/Recipes.ts"
import { findCanaries, makeDraft } from "../proof/fuzz/Requests.ts"
import { startWorld, type World } from "../proof/fuzz/World.ts"
import { documents, operations } from "../world/Contract.ts"
import {
  accepted,
  bodyCases,
  bodyInputs,
  frameInputs,
  headInputs,
  type Input,
  lineInputs,
  steps,
  writeMessage
} from "../world/Inputs.ts"
import { openRaw } from "../world/RawHttp.ts"
import { testWebhookSecret } from "../world/Settings.ts"
import { it, sharing } from "../world/Test.ts"
import {
  backend,
  type CallName,
  errorOf,
  goodRequests,
  outcomeOf,
  type Sent,
  shared,
  sharedInMemory,
  withHeaders
} from "./support.ts"

/** A valid request of each call and document, in production and with a bearer. */
const recipes = [
  ...operations.map((operation) => recipeOf(operation, operation.path)),
  recipeOf(
    operations.find(({ id }) => id === "webhooks.receive"),
    "/webhook/"
  ),
  ...documents.map((path) => recipeOf(undefined, path))
].flatMap((arbitrary) =>
  FastCheck.sample(arbitrary, { seed: 1, numRuns: 1 }).map(
    (sampled): Recipe => ({
      ...sampled,
      ...{ plane: "production", signed: true, headers: [], bodyCase: undefined, place: 0.5 }
    })
  )
)
const recipesOf = (id: string) => recipes.filter(({ operation }) => operation?.id === id)

const inputs = [...headInputs, ...bodyInputs, ...lineInputs, ...frameInputs]
/** A call that has what an input changes. */
const fitting = ({ name }: Input) =>
  name.startsWith("x-silicon")
    ? "webhooks.receive"
    : name.startsWith("origin")
      ? "telemetry.accept"
      : "reports.submit"
/** Inputs that mean something at every call that has what they change, and at every path. */
const everywhere =
  /^(?:idempotency-key|authorization|x-org-id|x-testing-environment-key|content-type): (?:left out|and an empty one)|of other calls|^body: empty|^HEAD|^OPTIONS|^path with a slash|^target with/

const byName = (name: string): Input => {
  const found = inputs.find((input) => input.name === name)
  if (found === undefined) throw new Error(name)
  return found
}

/** More than any body may have. What is promised then follows from its length. */
const long: Input = {
  name: "too long",
  parts: ["length"],
  outcome: accepted,
  change: ({ body = Buffer.of(), ...message }) => ({
    ...message,
    body: Buffer.concat([body, Buffer.alloc(600_000, " ")])
  })
}

/** A fault of every check of a request alone, in the order of docs/api.md ("Order of checks"). */
const faults: ReadonlyArray<ReadonlyArray<Input>> = [
  [byName('Host: ["a.example","evil.example"]')],
  [byName("path with a word")],
  [byName("method PUT")],
  [byName('content-type: "text/plain"')],
  [long],
  [byName("idempotency-key: 15 characters")],
  [byName("authorization: 27 characters")],
  [byName('x-org-id: "ACME"')],
  [byName('x-testing-environment-key: ""')],
  [long, byName("chunks with an extension and a trailer")],
  [byName("body: a byte order mark")],
  [byName("x-testing-environment-key: 43 characters")],
  [byName("authorization: 28 characters")]
]

describe("An input", () => {
  let world: World
  const log: Array<string> = []
  beforeAll(async () => {
    world = await startWorld(20, (line) => void log.push(line))
    world.renew()
  })
  afterAll(() => world.close())

  const ledger = new Ledger()
  let index = 0
  /** Sends one request, and compares its answer and what it reached with the laws. */
  const check = async (recipe: Recipe): Promise<void> => {
    index += 1
    const draft = makeDraft(recipe, index, 1, world)
    const { isSyntax, message, outcome } = draft
    const connection = await openRaw(world.port)
    world.upstreams.calls.length = 0
    const { answers, fault } = await connection.exchange({
      pieces: [writeMessage(message)],
      methods: [message.method],
      last: message.last,
      halfClose: message.halfClose,
      unfinished: isSyntax
    })
    connection.close()
    const title = [recipe.target, ...draft.changes]
    const [answer] = answers
    expect([title, fault]).toEqual([title, undefined])
    if (answer === undefined) return expect([title, outcome.kind]).toEqual([title, "open"])
    ledger.note(draft, answer)
    expect([title, checkAnswer(draft, answer)]).toEqual([title, []])
    if (outcome.kind !== "refused" || steps.indexOf(outcome.step) >= steps.indexOf("plane")) return
    const asked = world.upstreams.calls.filter(({ upstream }) => upstream === "iam" || upstream === "ting")
    expect([title, asked]).toEqual([title, []])
  }

  it("by itself has its promised answer; a refused one reaches and leaves nothing", async () => {
    for (const input of inputs)
      for (const recipe of everywhere.test(input.name) ? recipes : recipesOf(fitting(input)))
        await check({ ...recipe, inputs: [input] })
    for (const bodyCase of bodyCases)
      for (const recipe of recipesOf(bodyCase.call)) await check({ ...recipe, inputs: [], bodyCase })
    expect([...ledger.compare(world)]).toEqual([])
    expect(log.filter((line) => findCanaries(line).length > 0)).toEqual([])
  })

  it("behind one of an earlier check is not looked at", async () => {
    for (const [at, fault] of faults.entries())
      for (const recipe of ["auth.refresh", "auth.me", "tings.send", "reports.submit"].flatMap(recipesOf))
        await check({ ...recipe, inputs: [...fault, ...(faults[at + 1] ?? [])] })
  })
})

it.scoped(
  "A server that drains, is full or limits says so at its place in the order of checks",
  function* () {
    const policy = (name: string) => ({ name, quota: 1, windowSeconds: 60 })
    const bounds = { address: policy("address"), credential: policy("credential") }
    const faulty = {
      path: { path: "/nope" },
      method: { method: "PUT" },
      type: { headers: { "content-type": "text/plain" } },
      schema: { body: "{}" },
      plane: { headers: { "x-testing-environment-key": `ask_${"x".repeat(43)}` } }
    }
    for (const [code, before, behind] of [
      ["shutting_down", ["path", "method"], ["type"]],
      ["overloaded", ["path", "method"], ["type"]],
      ["rate_limited", ["schema"], ["plane"]]
    ] as const) {
      const settings = { rateLimit: code === "rate_limited" }
      const server = yield* backend({
        settings,
        bounds: { ...bounds, inFlight: code === "overloaded" ? 0 : 9 }
      })
      const { submit, version } = yield* goodRequests(server)
      if (code === "rate_limited") yield* server.send(version)
      if (code === "shutting_down") yield* server.drain.begin
      server.reached.length = 0
      const ask = (name: keyof typeof faulty) => {
        const { headers = {}, ...changed }: Partial<Sent> = faulty[name]
        return Effect.map(server.send(withHeaders(headers)({ ...submit, ...changed })), outcomeOf)
      }
      for (const name of before) expect([code, name, yield* ask(name)]).not.toEqual([code, name, code])
      for (const name of behind) expect([code, name, yield* ask(name)]).toEqual([code, name, code])
      expect(server.reached).toEqual([])
    }
  }
)

// It begins with no digit of a short escape.
const canary = "wordcanary"
const attachment = { name: "a", content: "b" }
const message = "x".repeat(10)

const unknown = "is not a known field"
const hidden = "(name not shown)"

/** Bodies that do not fit: the call, the body, and its first problem. */
const misfits: ReadonlyArray<readonly [CallName, unknown, path: string, problem: string]> = [
  ["login", {}, "slt", "is missing"],
  ["login", { slt: "a", [`oat_${canary.repeat(3)}`]: 1 }, hidden, unknown],
  ["login", { slt: "a", "\u001b[31mred": 1 }, hidden, unknown],
  ["login", { slt: "a", ["x".repeat(65)]: 1 }, hidden, unknown],
  ["login", { slt: `${canary} ` }, "slt", "must be 1 to 8192 visible ASCII characters"],
  ["subscribe", [], "body", "must be an object"],
  ["send", { type: 1, for: "a", data: {} }, "for", unknown],
  ["send", { type: 1, key: "a", data: {} }, "type", "a string"],
  ["accept", { table: canary, events: [] }, "events", "must hold 1 to 40 events"],
  ["accept", { table: "t", events: [{}, canary] }, "events.1", "must be an object"],
  ["submit", { message: "  short ", pr: canary }, "message", "10 to 20,000"],
  ["submit", { message, pr: canary }, "pr", "URL of a pull request"],
  ["submit", { message, pr: "x".repeat(501) }, "pr", "at most 500 characters long"],
  ["send", { type: "t", key: "k", data: [] }, "data", "must be an object"],
  ["submit", { message, attachments: [{ ...attachment, size: canary }] }, "attachments.0.size", unknown]
]

sharing(sharedInMemory())("A body", (it) => {
  it.effect("that does not fit has its first problem by field, with no part of a value", function* () {
    const server = yield* shared
    const good = yield* goodRequests(server)
    for (const [call, body, path, problem] of misfits) {
      const answer = yield* server.send({ ...good[call], body: JSON.stringify(body) })
      expect(outcomeOf(answer)).toBe("invalid_input")
      const fields = [{ path, problem: expect.stringContaining(problem) }]
      expect([call, errorOf(answer).details?.fields]).toEqual([call, fields])
      expect(answer.text).not.toContain("wordcan")
    }
    expect(server.reached).toEqual([])
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
      const inPlane = !["healthz", "readyz", "version", "receive"].includes(name)
      expect([name, server.reached.some(({ useCase }) => useCase === "resolvePlane")]).toEqual([
        name,
        inPlane
      ])
      if (!inPlane) {
        expect([name, answer.status]).toEqual([name, 200])
        expect((yield* server.send(withHeaders({ "x-testing-environment-key": "" })(sent))).status).toBe(200)
      }
      const plane = server.reached.find(({ useCase }) => !["resolvePlane", "readiness"].includes(useCase))
        ?.input[0]
      if (name === "iam") expect(answer.text).toContain(environmentId)
      else if (inPlane) expect([name, plane]).toMatchObject([name, { _tag: "Testing", environmentId }])
    }
  })
})
