/** What the simulated systems refuse, so that a service that breaks a contract fails its tests; and the settings of the sandbox. */
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import { beforeEach, describe, expect } from "vitest"
import { settingsFor, startUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { sha256 } from "../../sandbox/upstreams/Contract.ts"
import { signExchange } from "../../sandbox/upstreams/Iam.ts"
import type { Handle, Reply } from "../../sandbox/upstreams/Simulator.ts"
import { makeFaults } from "../world/Faults.ts"
import { it } from "../world/Test.ts"
import { makeSimulatedTime } from "../world/Time.ts"
import { makeUpstreams } from "../world/Upstreams.ts"

type HeaderMap = Readonly<Record<string, string | ReadonlyArray<string>>>

/** A request in memory: any header, any number of times. */
const send = async (handle: Handle, route: string, headers: HeaderMap = {}, body = ""): Promise<Reply> => {
  const [method = "", target = ""] = route.split(" ")
  const { pathname, searchParams } = new URL(target, "http://simulator.test")
  return handle({
    at: 0,
    method,
    path: pathname,
    query: searchParams,
    headers: new Map(Object.entries(headers).map(([name, value]) => [name, [value].flat()])),
    body: Buffer.from(body),
    status: undefined
  })
}

/** A text at a path of names, `""` when there is none. */
const textAt = (value: unknown, ...names: ReadonlyArray<string>): string =>
  String(names.reduce<unknown>((at, name) => (at as Record<string, unknown>)?.[name], value) ?? "")

/** Status and error code on one line: `400 invalid_grant`. */
const outcome = ({ body, status }: Reply): string => `${status} ${textAt(body, "error", "code")}`.trim()

const basic = (appId: string, secret: string) =>
  `Basic ${Buffer.from(`${appId}:${secret}`).toString("base64")}`
const key = (name: string) => `${name}-0000000000000000`
const form = { "content-type": "application/x-www-form-urlencoded" }
const jsonType = { "content-type": "application/json" }
const keyed = (...keys: ReadonlyArray<string>) => ({ ...form, "idempotency-key": keys })
const stranger = { authorization: basic("music", "ask_wrong") }

/** 2026-09-25T10:15:30Z, seconds. */
const start = 1_790_331_330

type Texts = Record<"subject" | "key" | "endpointId" | "path" | "bytes" | "timestamp" | "orgId", string>
/** `headers` replaces headers; an empty value removes one. */
type Exchange = Partial<Readonly<Texts & { headers: HeaderMap; body: object }>>

/** The simulators of the shared world, with a clock that only the test moves, and clients of IAM in production and by an application selector. */
const startBench = () => {
  const time = makeSimulatedTime(start * 1_000)
  const { iam, seeded, ting } = makeUpstreams({ time, faults: makeFaults(), observers: [] })
  const { controls, handle } = iam
  const clientOf = (musicSecret: string, isSelected: boolean) => {
    const authorization = basic("music", musicSecret)
    const own = { authorization, ...(isSelected ? { "x-testing-application": authorization } : {}) }
    const call = (route: string, headers: HeaderMap = {}, body = "") =>
      send(handle, route.replace(" ", " /api/v1"), { ...own, ...headers }, body)
    const exchange = (given: Exchange) => {
      const idempotencyKey = given.key ?? key("attempt")
      const timestamp = given.timestamp ?? String(Math.floor(time.now() / 1_000))
      const bodySha256 = sha256(given.bytes ?? "{}")
      const path = given.path ?? "/v1/tings"
      const signed = { timestamp, method: "POST", path, bodySha256, idempotencyKey }
      const headers: HeaderMap = {
        ...jsonType,
        "idempotency-key": idempotencyKey,
        "x-obo-timestamp": timestamp,
        "x-obo-signature": signExchange(musicSecret, signed),
        ...given.headers
      }
      const body = {
        org_id: given.orgId ?? null,
        subject_token: given.subject ?? `oat_${"x".repeat(43)}`,
        audience: "ting",
        endpoint_id: given.endpointId ?? "tings.send",
        metadata: {},
        request: { method: "POST", body_sha256: bodySha256 },
        ...given.body
      }
      const kept = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ""))
      return call("POST /obo-access/exchanges", kept, JSON.stringify(body))
    }
    const login = async (slt: string) => {
      const body = new URLSearchParams({ app_id: "music", slt }).toString()
      return textAt((await call("POST /app-auth/tokens", keyed(key(slt)), body)).body, "access_token")
    }
    return { call, exchange, login }
  }
  const { environment, production } = seeded
  const music = clientOf(production.musicSecret, false)
  return {
    ...{ controls, environment, time, ting },
    production: music,
    testing: clientOf(environment.musicSecret, true),
    /** Logs an actor in to music in production; resolves to its access token. */
    accessOf: (actor = "si:deejay", options: { readonly orgs?: ReadonlyArray<string> } = {}) =>
      music.login(controls.mintSlt("production", { appId: "music", actor, ...options }))
  }
}

let bench: ReturnType<typeof startBench>
beforeEach(() => {
  bench = startBench()
})

describe("The simulated IAM", () => {
  const [asking, login] = ["POST /oauth/introspect", "POST /app-auth/tokens"]
  const credential = "app_id=music&slt=a"
  it.each<[string, string, HeaderMap, string]>([
    ["406 api_version_not_supported", asking, { "silicon-iam-supported-api-versions": "v2" }, "token=x"],
    ["401 invalid_client", asking, { ...form, ...stranger }, "token=x"],
    ["428 precondition_required", login, form, credential],
    ["422 validation_failed", login, keyed("x".repeat(15)), credential],
    ["400 invalid_grant", login, keyed("~".repeat(255)), credential]
  ])("answers %s to %s %j %s", async (expected, route, headers, body) => {
    expect(outcome(await bench.production.call(route, headers, body))).toBe(expected)
  })

  it("accepts a selector of a testing application with byte-identical credentials only", async () => {
    const good = basic("music", bench.environment.musicSecret)
    const context = async (selector: string | ReadonlyArray<string>, authorization: string) => {
      const headers = { "x-testing-application": selector, authorization }
      return outcome(await bench.production.call("GET /application/testing-context", headers))
    }
    expect(await context(good, good)).toBe("200")
    for (const selector of ["", good.replace(/=+$/, ""), [good, good]])
      expect(await context(selector, good)).toBe("401 unauthenticated")
    expect(await context(good, basic("ting", bench.environment.tingSecret))).toBe("401 invalid_client")
  })

  it("answers 429 to the 121st request in 60 s on one path", async () => {
    const ask = () => bench.production.call("GET /obo-access/applications/ting/endpoints")
    for (let count = 0; count < 120; count += 1) expect((await ask()).status).toBe(200)
    bench.time.jump(59_999)
    expect(await ask()).toMatchObject({ status: 429, headers: { "retry-after": "1" } })
    bench.time.jump(1)
    expect((await ask()).status).toBe(200)
  })

  it("checks an exchange, and its key", async () => {
    const { accessOf, controls, production } = bench
    const subject = await accessOf("c:ana", { orgs: ["acme"] })
    const wrong: ReadonlyArray<readonly [Exchange, string]> = [
      [{ headers: stranger }, "401 invalid_client"],
      [{ body: { more: 1 } }, "422 request_rejected"],
      [{ headers: { "x-org-id": "acme" } }, "400 unsupported_header"],
      [{ headers: { "x-obo-timestamp": "" } }, "428 precondition_required"],
      [{ headers: { "x-obo-timestamp": "01790331330" } }, "401 invalid_client"],
      [{ headers: { "x-obo-signature": "" } }, "428 precondition_required"],
      [{ headers: { "x-obo-signature": "a".repeat(64) } }, "401 invalid_client"],
      [{ headers: { "idempotency-key": "" } }, "428 precondition_required"],
      [{ headers: { "idempotency-key": "short" } }, "422 validation_failed"],
      [{ subject: `oat_${"y".repeat(43)}` }, "400 invalid_subject_token"],
      [{ orgId: "zenith" }, "403 obo_organization_not_authorized"],
      [{ endpointId: "none" }, "404 not_found"],
      [{ body: { metadata: { more: 1 } } }, "422 validation_failed"],
      ...[-61, 61].map((late) => [{ timestamp: String(start + late) }, "401 invalid_client"] as const)
    ]
    for (const [given, expected] of wrong)
      expect([given, outcome(await production.exchange({ subject, ...given }))]).toEqual([given, expected])
    controls.holdIdempotency(key("attempt"))
    const asked = async (more: Exchange = {}) => outcome(await production.exchange({ subject, ...more }))
    expect(await asked()).toBe("409 idempotency_in_progress")
    bench.time.jump(30_000)
    expect(await asked()).toBe("201")
    expect(await asked({ bytes: "other" })).toBe("409 idempotency_conflict")
    for (const offset of [-30, 90])
      expect(await asked({ key: key(`at${offset}`), timestamp: String(start + offset) })).toBe("201")
  })
})

describe("The simulated Ting", () => {
  const tings = "/v1/tings"
  const subscriptions = "/v1/subscriptions"
  const good = { org_id: "acme", type: "music.trigger.fired", for: "si:deejay", key: "si:deejay/1", data: {} }
  const sample = (change: object = {}) => JSON.stringify({ ...good, ...change })
  const registration = JSON.stringify({ org_id: "acme", app_id: "music", for: "si:deejay" })
  let proofs = 0
  /** IAM's answer with a proof for these bytes. */
  const exchange = async (client: typeof bench.production, subject: string, path: string, bytes: string) => {
    proofs += 1
    const endpointId = path === tings ? "tings.send" : "subscriptions.register"
    const given = { subject, path, bytes, orgId: "acme", endpointId, key: key(`proof${proofs}`) }
    return (await client.exchange(given)).body
  }
  const prove = async (path: string, bytes: string) =>
    textAt(await exchange(bench.production, await bench.accessOf(), path, bytes), "access_proof")
  const carry = async (path: string, body: string, proof: string, headers: HeaderMap = {}) => {
    const all = { ...jsonType, ...(proof === "" ? {} : { authorization: `Bearer ${proof}` }), ...headers }
    return outcome(await send(bench.ting.handle, `POST ${path}`, all, body))
  }

  it("accepts a proof once, for its own bytes, organisation and minute", async () => {
    expect(await carry(tings, sample(), "")).toBe("401 authentication_required")
    const first = await prove(subscriptions, registration)
    const early = await prove(tings, sample())
    expect(await carry(tings, sample(), early)).toBe("403 recipient_not_registered")
    expect(await carry(subscriptions, registration, first)).toBe("201")
    expect(await carry(subscriptions, registration, first)).toBe("401 proof_consumed")
    const second = await prove(tings, sample())
    expect(await carry(tings, `${sample()} `, second)).toBe("401 invalid_proof")
    expect(await carry(tings, sample(), second)).toBe("202")
    for (const [change, expected] of [
      [{ data: { more: 1 } }, "409 idempotency_conflict"],
      [{ org_id: "zenith" }, "401 invalid_proof"],
      [{ key: "é".repeat(101) }, "400 invalid_input"],
      [{ type: "other.a.b" }, "403 permission_denied"],
      [{ key: "si:deejay/2", type: "music.other.type" }, "404 not_found"]
    ] as const)
      expect(await carry(tings, sample(change), await prove(tings, sample(change)))).toBe(expected)
    const late = await prove(tings, sample())
    bench.time.jump(60_000)
    expect(await carry(tings, sample(), late)).toBe("401 proof_expired")
  })

  it("accepts in a testing environment only the credentials of the exchange, both of them", async () => {
    const token = await bench.testing.login("si:deejay")
    const attempt = async (change: HeaderMap) => {
      const answer = await exchange(bench.testing, token, subscriptions, registration)
      const headers = {
        iam_test_app_secret: textAt(answer, "testing_context", "app_secret"),
        "x-testing-environment-key": textAt(answer, "testing_context", "iam_test_key"),
        ...change
      }
      return carry(subscriptions, registration, textAt(answer, "access_proof"), headers)
    }
    expect(await attempt({ "x-testing-environment-key": "B".repeat(32) })).toBe("403 permission_denied")
    const { musicSecret } = bench.environment
    expect(await attempt({ iam_test_app_secret: musicSecret })).toBe("403 permission_denied")
    expect(await attempt({})).toBe("201")
  })
})

it.scopedLive("The settings of the sandbox name this machine only", function* () {
  const bind = { host: "127.0.0.1", port: 0 }
  const options = { bind, databasePath: ":memory:", logLevel: LogLevel.None } as const
  const settings = settingsFor(yield* startUpstreams(Date.now), options)
  const urls = JSON.stringify(settings).match(/https?:\/\/[^"]+/g) ?? []
  expect(urls.filter((url) => !/^(?:127\.0\.0\.1|localhost)$/.test(new URL(url).hostname))).toEqual([])
  // The variables of this process do not count: no other database.
  expect(Option.isNone(settings.databaseUrl)).toBe(true)
})
