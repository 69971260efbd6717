/** Ting with a stub of IAM's two routes, whose answers a test can change, and a caller that can send invalid requests. */
import { createHash, randomUUID } from "node:crypto"
import { isRecord } from "../../sandbox/upstreams/ControlRoutes.ts"
import {
  headerOf,
  type Reply,
  type Seen,
  type Simulator,
  startSimulator
} from "../../sandbox/upstreams/Simulator.ts"
import { startTing, type TingSimulator } from "../../sandbox/upstreams/Ting.ts"
import { type Answer, basic, type HeaderMap, send } from "./iamClient.ts"

export const start = Date.parse("2026-09-24T08:15:30.412Z")
export const harbor = "0199a0aa-0000-7000-8000-000000000001"
export const dock = "0199a0aa-0000-7000-8000-000000000002"
export const environment = "0199b000-0000-7000-8000-00000000000e"
export const rootKey = "A".repeat(32)
export const testSecret = `ask_${"t".repeat(43)}`
export const appSecret = `ask_${"p".repeat(43)}`

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex")

interface Wanted {
  readonly path: string
  readonly actor: string
  readonly org: string
  readonly issuer: string
  readonly plane: string | null
}

const endpoints: Readonly<Record<string, string>> = {
  "/v1/subscriptions": "subscriptions.register",
  "/v1/subscriptions/query": "subscriptions.query",
  "/v1/subscriptions/revoke": "subscriptions.revoke",
  "/v1/tings": "tings.send",
  "/v1/sent/query": "sent.query",
  "/v1/sent/read": "sent.read"
}

const refusal = (status: number, code: string): Reply => ({
  status,
  body: { error: { code, message: code } }
})

export interface Bench {
  readonly ting: TingSimulator
  readonly iam: Simulator
  readonly clock: { time: number }
  /** Changes the data of the next verifications. */
  bend: (facts: Record<string, unknown>) => Record<string, unknown>
  /** Replaces IAM's answer to the next verifications. */
  verdict: Reply | undefined
  /** Replaces IAM's answer about the plane. */
  context: Reply | undefined
  readonly proof: (wanted?: Partial<Wanted>) => string
  readonly close: () => Promise<void>
}

const facts = (proof: Wanted, now: number): Record<string, unknown> => ({
  valid: true,
  proof_id: randomUUID(),
  issuer_app_id: proof.issuer,
  audience: "ting",
  actor: { type: proof.actor.startsWith("c:") ? "carbon" : "silicon", public_id: proof.actor },
  authorization: {
    public_id: proof.actor,
    organization_id: proof.org === "harbor" ? harbor : dock,
    org_id: proof.org,
    audience: "ting",
    testing_environment_id: proof.plane,
    scopes: Object.values(endpoints).map((endpoint) => `obo:ting:${endpoint}`)
  },
  org_id: proof.org,
  endpoint: { endpoint_id: endpoints[proof.path], path: proof.path },
  metadata: {},
  expires_at: new Date(now + 60_000).toISOString(),
  consumed_at: new Date(now).toISOString()
})

/** Ting with the type `music.track.ready` in both planes, and proofs that the stub accepts once each. */
export const startBench = async (): Promise<Bench> => {
  const clock = { time: start }
  const proofs = new Map<string, Wanted & { consumed: boolean }>()

  const verify = (request: Seen): Reply => {
    const body: unknown = JSON.parse(request.body.toString())
    const value = isRecord(body) && typeof body.access_proof === "string" ? body.access_proof : ""
    const proof = proofs.get(value)
    if (bench.verdict !== undefined) return bench.verdict
    if (proof === undefined) return refusal(410, "obo_proof_invalid")
    if (proof.consumed) return refusal(409, "obo_proof_consumed")
    proof.consumed = true
    return { status: 200, body: bench.bend(facts(proof, clock.time)) }
  }

  const testingContext = (): Reply =>
    bench.context ?? {
      status: 200,
      body: {
        environment_id: environment,
        application: { app_id: "ting" },
        webhook_key_digest: sha256(rootKey)
      }
    }

  const iam = await startSimulator({
    now: () => clock.time,
    handle: (request) => {
      const selector = headerOf(request, "x-testing-application")
      const authorization = headerOf(request, "authorization")
      const expected = basic("ting", selector === undefined ? appSecret : testSecret)
      if (authorization !== expected || (selector !== undefined && selector !== authorization))
        return refusal(401, "unauthenticated")
      return request.path === "/api/v1/obo-access/verify" ? verify(request) : testingContext()
    }
  })
  const ting = await startTing({ now: () => clock.time, iamUrl: iam.url, appSecret })
  for (const plane of ["production", environment]) ting.registerType(plane, "music", "music.track.ready")

  const bench: Bench = {
    ting,
    iam,
    clock,
    bend: (value) => value,
    verdict: undefined,
    context: undefined,
    proof: (wanted = {}) => {
      const value = `obo_${randomUUID()}`
      const whole = { path: "/v1/tings", actor: "si:lyra", org: "harbor", issuer: "music", plane: null }
      proofs.set(value, { ...whole, ...wanted, consumed: false })
      return value
    },
    close: async () => {
      await ting.close()
      await iam.close()
    }
  }
  return bench
}

export const planeHeaders = { iam_test_app_secret: testSecret, "x-testing-environment-key": rootKey }

/** A call with a new proof by default. An object body is sent as JSON, text unchanged. */
export const proved = (
  bench: Bench,
  path: string,
  body: unknown,
  options: { readonly proof?: Partial<Wanted>; readonly bearer?: string; readonly headers?: HeaderMap } = {}
): Promise<Answer> => {
  const bearer = options.bearer ?? bench.proof({ path, ...options.proof })
  return send(
    bench.ting.url,
    "POST",
    path,
    {
      ...(bearer === "" ? {} : { authorization: `Bearer ${bearer}` }),
      "content-type": "application/json",
      ...options.headers
    },
    typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body)
  )
}

export const registration = { org_id: "harbor", app_id: "music", for: "si:lyra" }

export const sample = (change: Readonly<Record<string, unknown>> = {}) => ({
  org_id: "harbor",
  type: "music.track.ready",
  for: "si:lyra",
  key: "si:lyra/track/0198c1/ready",
  data: { track_id: "0198c1", title: "Low Tide" },
  metadata: {},
  ...change
})

type Options = Parameters<typeof proved>[3]

export const register = (bench: Bench, body: unknown = registration, options: Options = {}) =>
  proved(bench, "/v1/subscriptions", body, options)

export const sendTing = (bench: Bench, body: unknown = sample(), options: Options = {}) =>
  proved(bench, "/v1/tings", body, options)

/** A call of a recipient. */
export const visit = (
  bench: Bench,
  token: string,
  method: string,
  path: string,
  body?: unknown,
  headers: HeaderMap = {}
): Promise<Answer> =>
  send(
    bench.ting.url,
    method,
    path,
    { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
    body === undefined ? "" : JSON.stringify(body)
  )
