/** What the simulated systems refuse, so that a service that breaks a contract fails its tests; and the settings of the sandbox. */
import { LogLevel, Option } from "effect"
import { beforeEach, describe, expect } from "vitest"
import { settingsFor, startUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { sha256 } from "../../sandbox/upstreams/Contract.ts"
import { signExchange } from "../../sandbox/upstreams/Iam.ts"
import type { Handle, Reply } from "../../sandbox/upstreams/Simulator.ts"
import { makeFaults } from "../world/Faults.ts"
import { it } from "../world/Test.ts"
import { makeSimulatedTime } from "../world/Time.ts"
import { makeUpstreams } from "../world/Upstreams.ts"

type HeaderMap = Readonly<Record<string, string>>

/** A request in memory. */
const send = async (handle: Handle, route: string, headers: HeaderMap = {}, body = ""): Promise<Reply> => {
  const [method = "", target = ""] = route.split(" ")
  const { pathname, searchParams } = new URL(target, "http://simulator.test")
  return handle({
    at: 0,
    method,
    path: pathname,
    query: searchParams,
    headers: new Map(Object.entries(headers).map(([name, value]) => [name, [value]])),
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
const jsonType = { "content-type": "application/json" }
const stranger = { authorization: basic("music", "ask_wrong") }

/** 2026-09-25T10:15:30Z, seconds. */
const start = 1_790_331_330

type Texts = Record<"subject" | "key" | "endpointId" | "path" | "bytes" | "timestamp" | "orgId", string>
/** `headers` replaces headers. */
type Exchange = Partial<Readonly<Texts & { headers: HeaderMap }>>

/** IAM and Ting of the shared world, with a clock that only the test moves, and music as a client of IAM in production. */
const startBench = () => {
  const time = makeSimulatedTime(start * 1_000)
  const { iam, seeded, ting } = makeUpstreams({ time, faults: makeFaults(), observers: [] })
  const { musicSecret } = seeded.production
  const call = (route: string, headers: HeaderMap = {}, body = "") =>
    send(
      iam.handle,
      route.replace(" ", " /api/v1"),
      { authorization: basic("music", musicSecret), ...headers },
      body
    )
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
      request: { method: "POST", body_sha256: bodySha256 }
    }
    return call("POST /obo-access/exchanges", headers, JSON.stringify(body))
  }
  /** Logs an actor in; resolves to its access token. */
  const accessOf = async (actor = "si:deejay", options: { readonly orgs?: ReadonlyArray<string> } = {}) => {
    const slt = iam.controls.mintSlt("production", { appId: "music", actor, ...options })
    const headers = { "content-type": "application/x-www-form-urlencoded", "idempotency-key": key(slt) }
    const body = new URLSearchParams({ app_id: "music", slt }).toString()
    return textAt((await call("POST /app-auth/tokens", headers, body)).body, "access_token")
  }
  return { time, ting, call, exchange, accessOf }
}

let bench: ReturnType<typeof startBench>
beforeEach(() => {
  bench = startBench()
})

describe("The simulated IAM", () => {
  it("checks an exchange", async () => {
    const { accessOf, exchange } = bench
    const subject = await accessOf("c:ana", { orgs: ["acme"] })
    const wrong: ReadonlyArray<readonly [Exchange, string]> = [
      [{ headers: stranger }, "401 invalid_client"],
      [{ headers: { "x-obo-signature": "a".repeat(64) } }, "401 invalid_client"],
      [{ subject: `oat_${"y".repeat(43)}` }, "400 invalid_subject_token"],
      [{ orgId: "zenith" }, "403 obo_organization_not_authorized"],
      [{ endpointId: "none" }, "404 not_found"],
      ...[-61, 61].map((late) => [{ timestamp: String(start + late) }, "401 invalid_client"] as const)
    ]
    for (const [given, expected] of wrong)
      expect([given, outcome(await exchange({ subject, ...given }))]).toEqual([given, expected])
    expect(outcome(await exchange({ subject }))).toBe("201")
    expect(outcome(await exchange({ subject, bytes: "other" }))).toBe("409 idempotency_conflict")
  })
})

describe("The simulated Ting", () => {
  const tings = "/v1/tings"
  const subscriptions = "/v1/subscriptions"
  const good = { org_id: "acme", type: "music.trigger.fired", for: "si:deejay", key: "si:deejay/1", data: {} }
  const sample = (change: object = {}) => JSON.stringify({ ...good, ...change })
  const registration = JSON.stringify({ org_id: "acme", app_id: "music", for: "si:deejay" })
  let proofs = 0
  const prove = async (path: string, bytes: string) => {
    proofs += 1
    const endpointId = path === tings ? "tings.send" : "subscriptions.register"
    const subject = await bench.accessOf()
    const given = { subject, path, bytes, orgId: "acme", endpointId, key: key(`proof${proofs}`) }
    return textAt((await bench.exchange(given)).body, "access_proof")
  }
  const carry = async (path: string, body: string, proof: string) => {
    const headers = { ...jsonType, ...(proof === "" ? {} : { authorization: `Bearer ${proof}` }) }
    return outcome(await send(bench.ting.handle, `POST ${path}`, headers, body))
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
