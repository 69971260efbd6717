/** Requests to the simulated IAM, valid and invalid: any header, any number of times. */
import { request } from "node:http"
import { seedIam, signExchange, startIam } from "../../sandbox/upstreams/Iam.ts"
import { sha256 } from "../../sandbox/upstreams/iam/Identifiers.ts"

export type HeaderMap = Readonly<Record<string, string | ReadonlyArray<string>>>
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  readonly json: unknown
}

export const send = (
  base: string,
  method: string,
  path: string,
  headers: HeaderMap = {},
  body: string | Buffer = ""
): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const lines = Object.entries(headers).map(([name, value]): [string, string | Array<string>] => [
      name,
      typeof value === "string" ? value : [...value]
    ])
    const length = { "content-length": String(Buffer.byteLength(body)) }
    const sent = request(`${base}${path}`, {
      method,
      agent: false,
      headers: { ...Object.fromEntries(lines), ...length }
    })
    sent.on("error", reject)
    sent.on("response", async (response) => {
      let text = ""
      for await (const chunk of response.setEncoding("utf8")) text += chunk
      const json: unknown = /^[[{]/.test(text) ? JSON.parse(text) : text
      resolve({ status: response.statusCode ?? 0, headers: response.headers, json })
    })
    sent.end(body)
  })

/** A text at a path of names, `""` when there is none. */
export const textAt = (value: unknown, ...names: ReadonlyArray<string>): string => {
  const found = names.reduce<unknown>(
    (at, name) => (typeof at === "object" && at !== null ? Reflect.get(at, name) : undefined),
    value
  )
  return typeof found === "string" ? found : ""
}

/** Status and error code on one line: `400 invalid_grant`. */
export const outcome = ({ json, status }: Answer): string =>
  `${status} ${textAt(json, "error", "code")}`.trim()

export const basic = (appId: string, secret: string): string =>
  `Basic ${Buffer.from(`${appId}:${secret}`).toString("base64")}`
export const key = (name: string): string => `${name}-0000000000000000`
export const form = { "content-type": "application/x-www-form-urlencoded" }
export const jsonType = { "content-type": "application/json" }

/** 2026-09-25T10:15:30Z, the time of the contract's vectors, seconds. */
export const start = 1_790_331_330

export interface Exchange {
  readonly subject?: string
  readonly key?: string
  readonly orgId?: string | null
  readonly endpointId?: string
  readonly metadata?: unknown
  readonly path?: string
  readonly bytes?: string
  readonly timestamp?: string
  /** Replaces headers; an empty value removes one. */
  readonly headers?: HeaderMap
  readonly body?: object
}

/** A seeded simulator with a clock that only the test moves, and clients of it in production and by an application selector. */
export const startBench = async () => {
  const clock = { time: start * 1_000 }
  const iam = await startIam({ now: () => clock.time })
  const seeded = seedIam(iam.controls)
  const clientOf = ({ musicSecret, tingSecret }: typeof seeded.production, selected: boolean) => {
    const as = (appId: string, secret: string) => {
      const authorization = basic(appId, secret)
      return { authorization, ...(selected ? { "x-testing-application": authorization } : {}) }
    }
    const call = (method: string, path: string, headers: HeaderMap = {}, body = "") =>
      send(iam.url, method, `/api/v1${path}`, { ...as("music", musicSecret), ...headers }, body)
    const post = (path: string, fields: Record<string, string>, headers: HeaderMap = {}) =>
      call("POST", path, { ...form, ...headers }, new URLSearchParams(fields).toString())
    return {
      call,
      post,
      login: (slt: string) =>
        post("/app-auth/tokens", { app_id: "music", slt }, { "idempotency-key": key(slt) }),
      exchange: (given: Exchange) => {
        const idempotencyKey = given.key ?? key("attempt")
        const timestamp = given.timestamp ?? String(Math.floor(clock.time / 1_000))
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
          metadata: given.metadata ?? {},
          request: { method: "POST", body_sha256: bodySha256 },
          ...given.body
        }
        const kept = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ""))
        return call("POST", "/obo-access/exchanges", kept, JSON.stringify(body))
      },
      /** With Ting's credentials. */
      verify: (access_proof: string, change: object = {}, headers: HeaderMap = {}) => {
        const bound = { method: "POST", path: "/v1/tings", body_sha256: sha256("{}"), ...change }
        const sent = { ...jsonType, ...as("ting", tingSecret), ...headers }
        return call("POST", "/obo-access/verify", sent, JSON.stringify({ access_proof, request: bound }))
      }
    }
  }
  const production = clientOf(seeded.production, false)
  return {
    iam,
    seeded,
    clock,
    production,
    testing: clientOf(seeded.environment, true),
    /** Logs an actor in to music in production; resolves to its access token. */
    accessOf: async (actor = "si:deejay", options: { readonly orgs?: ReadonlyArray<string> } = {}) => {
      const slt = iam.controls.mintSlt("production", { appId: "music", actor, ...options })
      return textAt((await production.login(slt)).json, "access_token")
    }
  }
}
export type Bench = Awaited<ReturnType<typeof startBench>>
