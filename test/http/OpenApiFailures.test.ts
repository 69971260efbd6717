import { existsSync, readFileSync } from "node:fs"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { production } from "../../sandbox/upstreams/Iam.ts"
import type { Fault } from "../../sandbox/upstreams/Simulator.ts"
import type { TingCode } from "../../sandbox/upstreams/Ting.ts"
import type { SimulatedUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { Production, Testing } from "../../src/services/Plane.ts"
import { type IamOperation, mapIamFailure, mapTingFailure } from "../../src/services/UpstreamErrorMapping.ts"
import { Refused } from "../../src/services/UpstreamFailure.ts"
import { startTestSandbox } from "../support/Sandbox.ts"
import { callsOf, freshDocument, misfits, type RealAnswer } from "./Documented.ts"
import {
  type Answer,
  type Backend,
  backend,
  type CallName,
  call,
  good,
  parseRaw,
  raw,
  sharedBackend,
  type Sent,
  testingSecret
} from "./support.ts"

/** An operation and a code that the document lists for it; some test must provoke it. */
type Pair = `${string} ${string}`

const documented: ReadonlyArray<Pair> = callsOf(freshDocument()).flatMap(({ operationId, responses }) =>
  Object.entries(responses)
    .filter(([status]) => Number(status) >= 400)
    .flatMap(([, { content }]) => Object.keys(content?.["application/json"].examples ?? {}))
    .map((code): Pair => `${operationId} ${code}`)
)

/** Codes that need a long wait or a broken disk, and the tests that provoke them with a test clock or a stub. */
const elsewhere: Readonly<Record<Pair, string>> = {
  "system.healthz internal": "test/http/Envelope.test.ts",
  "descriptors.version internal": "test/http/Envelope.test.ts",
  "auth.login idempotency_in_progress": "test/services/LoginReplay.test.ts",
  "auth.refresh idempotency_in_progress": "test/services/UpstreamErrorMapping.test.ts",
  "auth.logout idempotency_in_progress": "test/services/UpstreamErrorMapping.test.ts",
  "tings.subscribe idempotency_in_progress": "test/services/UpstreamErrorMapping.test.ts",
  "tings.send idempotency_in_progress": "test/services/UpstreamErrorMapping.test.ts",
  "reports.submit reports_full": "test/services/ReportCapacity.test.ts",
  "telemetry.accept spool_full": "test/services/Telemetry.test.ts",
  "webhooks.receive dependency_unavailable": "test/services/Webhooks.test.ts"
}

const operationIds = {
  healthz: "system.healthz",
  readyz: "system.readyz",
  iam: "descriptors.iam",
  version: "descriptors.version",
  login: "auth.login",
  refresh: "auth.refresh",
  logout: "auth.logout",
  me: "auth.me",
  subscribe: "tings.subscribe",
  send: "tings.send",
  submit: "reports.submit",
  accept: "telemetry.accept",
  receive: "webhooks.receive"
} as const satisfies Record<CallName, string>

const names = Object.keys(good) as ReadonlyArray<CallName>
const posts = names.filter((name) => good[name].method === "POST")
const keyed = ["login", "refresh", "logout", "submit"] as const
const signed = ["me", "subscribe", "send", "submit"] as const
const planed = names.filter((name) => !["healthz", "readyz", "version", "receive"].includes(name))
const probes: ReadonlyArray<CallName> = ["healthz", "readyz"]

const provoked = new Map<Pair, RealAnswer>()

/** Records an answer and returns its code. */
const recordAnswer = (name: CallName, answer: Pick<Answer, "status" | "text">): string => {
  const body =
    answer.text === "" ? {} : (JSON.parse(answer.text) as { readonly error?: { readonly code?: string } })
  const code = body.error?.code ?? `${answer.status}`
  const operationId = operationIds[name]
  if (answer.status >= 400)
    provoked.set(`${operationId} ${code}`, { operationId, status: answer.status, name: code, body })
  return code
}

/** Sends each of the calls with a change; all must answer with the code. */
const expectAll = (
  server: Backend,
  which: ReadonlyArray<CallName>,
  code: string,
  change: (sent: Sent) => Sent = (sent) => sent
) =>
  Effect.forEach(which, (name) =>
    Effect.map(call(server, change(good[name])), (answer) =>
      expect([name, recordAnswer(name, answer)]).toEqual([name, code])
    )
  )

const withHeaders =
  (headers: Readonly<Record<string, string>>) =>
  (sent: Sent): Sent => ({
    ...sent,
    headers: { ...(sent.headers as Record<string, string> | undefined), ...headers }
  })

const without =
  (header: string) =>
  (sent: Sent): Sent => ({
    ...sent,
    headers: Object.fromEntries(
      Object.entries((sent.headers ?? {}) as Record<string, string>).filter(([name]) => name !== header)
    )
  })

describe("The failures before a call begins", () => {
  it.scoped("of a malformed request", function* () {
    const server = yield* sharedBackend
    for (const name of names) {
      const { method, path } = good[name]
      const answer = parseRaw(yield* raw(server, `${method} ${path} HTTP/1.1\r\nConnection: close\r\n\r\n`))
      expect([name, recordAnswer(name, answer)]).toEqual([name, "invalid_input"])
    }
    yield* expectAll(server, posts, "unsupported_media_type", withHeaders({ "content-type": "text/plain" }))
    yield* expectAll(server, posts, "payload_too_large", (sent) => ({
      ...sent,
      body: " ".repeat(1_048_577)
    }))
    yield* expectAll(server, keyed, "idempotency_key_required", without("idempotency-key"))
    yield* expectAll(server, keyed, "idempotency_key_invalid", withHeaders({ "idempotency-key": "short" }))
    yield* expectAll(
      server,
      signed,
      "unauthenticated",
      withHeaders({ authorization: "Bearer short", "x-org-id": "acme" })
    )
    yield* expectAll(
      server,
      planed,
      "testing_secret_invalid",
      withHeaders({ "x-testing-environment-key": "ask_short" })
    )
    expect(server.reached).toEqual([])
  })

  it.scoped("of an overloaded and of a draining server", function* () {
    const admitted = names.filter((name) => !probes.includes(name))
    yield* expectAll(yield* backend({ inFlight: 0 }), admitted, "overloaded")
    const quota = (name: string) => ({ name, quota: 1, windowSeconds: 600 })
    const limited = yield* backend({
      settings: { rateLimit: true },
      policies: {
        address: quota("address"),
        credential: quota("credential")
      }
    })
    yield* call(limited, good.version)
    yield* expectAll(
      limited,
      admitted.filter((name) => name !== "receive"),
      "rate_limited"
    )
    const ending = yield* backend()
    yield* ending.drain.begin
    yield* expectAll(ending, admitted, "shutting_down")
    yield* expectAll(ending, ["readyz"], "not_ready")
  })

  it.scoped("of a defect", function* () {
    const fault = Effect.die("a fault")
    const server = yield* sharedBackend
    const during: Backend["during"] = {
      resolve: fault,
      authenticate: fault,
      login: fault,
      refresh: fault,
      logout: fault,
      submit: fault,
      accept: fault,
      receive: fault,
      readiness: fault
    }
    Object.assign(server.during, during)
    const plain = names.filter((name) => name !== "healthz" && name !== "version" && name !== "iam")
    yield* expectAll(server, plain, "internal")
    yield* expectAll(server, ["iam"], "internal", withHeaders({ "x-testing-environment-key": testingSecret }))
  })
})

const refusal = (status: number, code: string): Fault => ({
  kind: "reply",
  reply: { status, body: { error: { code, message: code } } }
})

/** Calls IAM with the credentials of this service. */
const askIam = (world: SimulatedUpstreams, path: string, form: Readonly<Record<string, string>>) =>
  Effect.promise(async () => {
    const { musicSecret } = world.seeded.production
    const response = await fetch(`${world.iam.url}/api/v1${path}`, {
      method: "POST",
      headers: {
        authorization: `Basic ${Buffer.from(`music:${musicSecret}`).toString("base64")}`,
        "idempotency-key": `direct-${Object.values(form).join("-").slice(-20)}`,
        "silicon-iam-supported-api-versions": "v1",
        "user-agent": "test"
      },
      body: new URLSearchParams(form)
    })
    return (await response.json()) as Record<string, string>
  })

/** A pair of tokens with other scopes than this service requests at login. */
const tokensWith = (world: SimulatedUpstreams, scopes: ReadonlyArray<string>) => {
  const slt = world.iam.controls.mintSlt(production, { appId: "music", actor: "si:deejay", scopes })
  return Effect.map(
    askIam(world, "/app-auth/tokens", { app_id: "music", slt }),
    ({ access_token = "", refresh_token = "" }) => ({ access_token, refresh_token })
  )
}

const signedBy = (token: string) => withHeaders({ authorization: `Bearer ${token}`, "x-org-id": "acme" })
const json =
  (body: unknown) =>
  (sent: Sent): Sent => ({ ...sent, body: JSON.stringify(body) })

type Change = (sent: Sent) => Sent
const unchanged: Change = (sent) => sent

let keys = 0
const freshKey: Change = (sent) => {
  keys += 1
  return "idempotency-key" in (sent.headers ?? {})
    ? withHeaders({ "idempotency-key": `fresh-key-0000-${keys}` })(sent)
    : sent
}

/** The sandbox, a separate token, and a function that sends several calls that must all answer with one code. */
const prepared = Effect.gen(function* () {
  const { world, base } = yield* startTestSandbox
  const ask = (name: CallName, change: Change) =>
    Effect.promise(async () => {
      const { path, method = "GET", headers, body } = change(freshKey(good[name]))
      const response = await fetch(`${base}${path}`, {
        method,
        headers: (headers ?? {}) as Record<string, string>,
        ...(body === undefined ? {} : { body })
      })
      return recordAnswer(name, { status: response.status, text: await response.text() })
    })
  const asks = (which: ReadonlyArray<CallName>, code: string, change: Change = unchanged) =>
    Effect.forEach(
      which,
      (name) => Effect.map(ask(name, change), (answered) => expect([name, answered]).toEqual([name, code])),
      { concurrency: "unbounded" }
    )
  const { access_token } = yield* tokensWith(world, [
    "self.identity.read",
    "obo:ting:subscriptions.register",
    "obo:ting:tings.send"
  ])
  return {
    world,
    ask,
    asks,
    asCaller: signedBy(access_token),
    inPlane: withHeaders({ "x-testing-environment-key": world.seeded.environment.musicSecret }),
    /** Makes every call to IAM, or to one path of it, end with the fault while the effect runs. */
    whileIam: <A>(fault: Fault, effect: Effect.Effect<A>, path?: string) =>
      Effect.acquireUseRelease(
        Effect.sync(() =>
          world.iam.fail({ times: Number.POSITIVE_INFINITY, fault, ...(path === undefined ? {} : { path }) })
        ),
        () => effect,
        () => Effect.sync(() => world.iam.clearFaults())
      )
  }
})

describe("The failures of a call, against simulated upstreams", () => {
  it.scopedLive("when IAM refuses the caller", function* () {
    const { world, asks, asCaller } = yield* prepared
    yield* asks(["login"], "slt_rejected", json({ slt: "oac_unknown" }))
    yield* asks(["refresh"], "unauthenticated")
    const elsewhere = withHeaders({ "x-org-id": "zenith" })
    yield* asks(signed, "forbidden", (sent) => elsewhere(asCaller(sent)))

    const scopes = ["self.profile.read"]
    const slt = world.iam.controls.mintSlt(production, { appId: "music", actor: "si:deejay", scopes })
    yield* asks(["login"], "reconsent_required", json({ slt }))
    const { access_token: nameless, refresh_token } = yield* tokensWith(world, scopes)
    yield* asks(["subscribe", "send"], "reconsent_required", signedBy(nameless))
    const { public_id: _, ...undisclosed } = yield* askIam(world, "/oauth/introspect", { token: nameless })
    world.iam.fail({
      path: "/api/v1/oauth/introspect",
      times: 3,
      fault: { kind: "reply", reply: { status: 200, body: undisclosed } }
    })
    yield* asks(["me", "submit"], "reconsent_required", signedBy(nameless))
    yield* asks(["refresh"], "reconsent_required", json({ refresh_token }))
  })

  it.scopedLive("when IAM refuses this service, or does not answer", function* () {
    const { asks, asCaller, inPlane, whileIam } = yield* prepared
    yield* whileIam(
      refusal(403, "forbidden"),
      Effect.zipRight(
        asks(["login", "refresh", "logout"], "forbidden"),
        asks(["iam", "accept"], "forbidden", inPlane)
      )
    )
    const asking = ["login", "refresh", "logout", "me", "subscribe", "send"] as const
    yield* whileIam(refusal(401, "invalid_client"), asks(asking, "dependency_misconfigured", asCaller))
    yield* whileIam(
      refusal(409, "idempotency_conflict"),
      asks(["login", "refresh", "logout"], "idempotency_conflict")
    )
    yield* whileIam(
      refusal(409, "idempotency_response_expired"),
      // An expired replay of a revocation is a success.
      Effect.zipRight(asks(["login", "refresh"], "idempotency_response_expired"), asks(["logout"], "204"))
    )
    yield* whileIam(
      refusal(409, "idempotency_response_expired"),
      asks(["subscribe", "send"], "idempotency_response_expired", asCaller),
      "/api/v1/obo-access/exchanges"
    )
    yield* whileIam(
      { kind: "drop" },
      Effect.all(
        [
          asks(asking, "dependency_unavailable", asCaller),
          asks(["iam", "accept", "submit"], "dependency_unavailable", inPlane)
        ],
        { concurrency: "unbounded" }
      )
    )
  })

  it.scopedLive("when Ting refuses", function* () {
    const { world, asks, asCaller } = yield* prepared
    yield* asks(["subscribe"], "200", asCaller)
    const always: ReadonlyArray<TingCode> = [
      "permission_denied",
      "test_context_mismatch",
      "temporarily_rate_limited"
    ]
    const sending: ReadonlyArray<TingCode> = [
      "recipient_not_registered",
      "required_delivery_not_enabled",
      "idempotency_conflict",
      "not_found"
    ]
    const refusing = (name: CallName, code: TingCode) =>
      Effect.suspend(() => {
        world.ting.failNext(code)
        return asks([name], code, asCaller)
      })
    yield* Effect.forEach(always, (code) => refusing("subscribe", code))
    yield* Effect.forEach([...always, ...sending], (code) => refusing("send", code))
  })

  it.scopedLive("when this service itself refuses", function* () {
    const { world, ask, asks, asCaller } = yield* prepared
    const unknownType = json({ type: "music.no.type", key: "si:deejay/1", data: {} })
    yield* asks(["send"], "not_found", (sent) => asCaller(unknownType(sent)))
    const chosen = withHeaders({ "idempotency-key": "chosen-key-000001" })
    yield* asks(["submit"], "200", chosen)
    const other = json({ message: "Something else under the same key." })
    yield* asks(["submit"], "idempotency_conflict", (sent) => chosen(other(sent)))
    yield* asks(["accept"], "origin_not_allowed", withHeaders({ origin: "https://elsewhere.example" }))
    yield* asks(["receive"], "webhook_signature_invalid")
    // 60 at once, which are refilled by one each second.
    const forged = yield* Effect.replicateEffect(ask("receive", unchanged), 200, { concurrency: 20 })
    expect(new Set(forged)).toEqual(new Set(["webhook_signature_invalid", "rate_limited"]))
    const { environmentId } = world.seeded.environment
    const { events } = world.iam.controls
    const { headers, body } = world.iam.controls.buildWebhook(
      environmentId,
      events.membershipUpdated(environmentId, "si:lyra", "acme")
    )
    yield* asks(["receive"], "plane_mismatch", (sent) => ({
      ...sent,
      headers,
      body: body.toString("utf8")
    }))
  })
})

describe("What IAM and Ting may refuse by their contracts", () => {
  type Refusal = readonly [status: number, code: string]
  const anywhere: ReadonlyArray<Refusal> = [
    [401, "invalid_client"],
    [401, "unauthenticated"],
    [403, "forbidden"],
    [404, "not_found"],
    [422, "validation_failed"],
    [429, "rate_limited"],
    [500, "internal_error"],
    [503, "service_unavailable"]
  ]
  const running: Refusal = [409, "idempotency_in_progress"]
  const expired: Refusal = [409, "idempotency_response_expired"]
  const conflict: Refusal = [409, "idempotency_conflict"]
  const ofIam: Readonly<Record<IamOperation, ReadonlyArray<Refusal>>> = {
    login: [...anywhere, running, expired, conflict, [400, "invalid_grant"]],
    refresh: [...anywhere, running, expired, conflict, [400, "invalid_grant"]],
    // An expired replay of a revocation is a success.
    revoke: [...anywhere, running, conflict],
    introspect: anywhere,
    plane: anywhere,
    // Its key is random, so it has no conflict.
    prove: [
      ...anywhere,
      running,
      expired,
      [400, "invalid_subject_token"],
      [403, "obo_subject_token_forbidden"],
      [403, "obo_organization_not_authorized"]
    ]
  }
  const ofTing: ReadonlyArray<Refusal> = [
    [400, "invalid_input"],
    [401, "proof_consumed"],
    [401, "session_expired"],
    [403, "permission_denied"],
    [403, "test_context_mismatch"],
    [429, "temporarily_rate_limited"],
    [503, "storage_unavailable"]
  ]
  const ofTings: ReadonlyArray<Refusal> = [
    ...ofTing,
    [403, "recipient_not_registered"],
    [403, "required_delivery_not_enabled"],
    [404, "not_found"],
    [409, "idempotency_conflict"],
    [413, "payload_too_large"]
  ]
  const testing = Testing({
    environmentId: "0199a0cc-0000-7000-8000-000000000001",
    secret: Redacted.make(testingSecret),
    webhookKeyDigest: undefined
  })

  it.each<[CallName, ReadonlyArray<IamOperation>, ReadonlyArray<Refusal>]>([
    ["iam", [], []],
    ["login", ["login", "introspect", "revoke"], []],
    ["refresh", ["refresh", "introspect"], []],
    ["logout", ["revoke"], []],
    ["me", ["introspect"], []],
    ["subscribe", ["introspect", "prove"], ofTing],
    ["send", ["introspect", "prove"], ofTings],
    // Its introspection fails with verdicts on the token only; the tests above provoke them.
    ["submit", [], []],
    ["accept", [], []]
  ])("the document lists every failure of %s that follows from it", (name, operations, refusals) => {
    const failed = (dependency: "iam" | "ting", [status, code]: Refusal) =>
      new Refused({ dependency, status, code })
    const failures = [
      ...ofIam.plane.map((refusal) => mapIamFailure("plane", "selecting", 0)(failed("iam", refusal))),
      ...operations.flatMap((operation) =>
        ofIam[operation].flatMap((refusal) =>
          [Production(), testing].map((plane) => mapIamFailure(operation, plane, 0)(failed("iam", refusal)))
        )
      ),
      ...refusals.map((refusal) => mapTingFailure(failed("ting", refusal), 0))
    ]
    const codes = new Set(failures.map(({ code }): Pair => `${operationIds[name]} ${code}`))
    expect([...codes].filter((pair) => !documented.includes(pair))).toEqual([])
  })
})

describe("The codes of the document", () => {
  it("are all provoked by a test, and a call answers with no other code", () => {
    const here = [...provoked.keys()]
    expect(here.filter((pair) => !documented.includes(pair))).toEqual([])
    expect(documented.filter((pair) => !provoked.has(pair)).sort()).toEqual(Object.keys(elsewhere).sort())
  })

  it("are provoked in the files of the table", () => {
    for (const [pair, file] of Object.entries(elsewhere)) {
      const [, code = ""] = pair.split(" ")
      expect([pair, existsSync(file) && readFileSync(file, "utf8").includes(code)]).toEqual([pair, true])
    }
  })

  it("are in envelopes that match their schemas", async () => {
    expect(provoked.size).toBe(documented.length - Object.keys(elsewhere).length)
    expect(await misfits([...provoked.values()])).toEqual([])
  })
})
