/** Requests to the simulated IAM, valid and invalid: any header, any number of times. */
import { request } from "node:http"
import {
  type IamSimulator,
  type SeededPlane,
  type SeededIam,
  seedIam,
  signExchange,
  startIam
} from "../../sandbox/upstreams/Iam.ts"
import { sha256 } from "../../sandbox/upstreams/iam/Identifiers.ts"

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  readonly text: string
  readonly json: Readonly<Record<string, unknown>>
}

export type HeaderMap = Readonly<Record<string, string | ReadonlyArray<string>>>

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const parse = (text: string): Readonly<Record<string, unknown>> => {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : {}
  } catch {
    return {}
  }
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
    const outgoing = request(`${base}${path}`, {
      method,
      agent: false,
      headers: { ...Object.fromEntries(lines), "content-length": String(Buffer.byteLength(body)) }
    })
    outgoing.on("error", reject)
    outgoing.on("response", (response) => {
      const chunks: Array<Buffer> = []
      response.on("data", (chunk: Buffer) => chunks.push(chunk))
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8")
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json: parse(text) })
      })
      response.on("error", reject)
    })
    outgoing.end(body)
  })

/** A text at a path of names, `""` when there is none. */
export const textAt = (value: unknown, ...names: ReadonlyArray<string>): string => {
  const found = names.reduce<unknown>((at, name) => (isObject(at) ? at[name] : undefined), value)
  return typeof found === "string" ? found : ""
}

/** Status and error code on one line: `400 invalid_grant`. */
export const outcome = (answer: Answer): string =>
  `${answer.status} ${textAt(answer.json, "error", "code")}`.trim()

export const basic = (appId: string, secret: string): string =>
  `Basic ${Buffer.from(`${appId}:${secret}`).toString("base64")}`

export const key = (name: string): string => `${name}-0000000000000000`

/** 2026-09-25T10:15:30Z, the time of the contract's vectors. */
export const start = 1_790_331_330_000

export interface Bench {
  readonly iam: IamSimulator
  readonly seeded: SeededIam
  /** The clock of the simulator, milliseconds. */
  readonly clock: { time: number }
  readonly production: Client
  /** Music in the testing environment, by application selector. */
  readonly testing: Client
}

export interface ExchangeInput {
  readonly subject: string
  readonly key?: string
  readonly orgId?: string | null
  readonly endpointId?: string
  readonly metadata?: unknown
  readonly path?: string
  readonly bytes?: string
  readonly timestamp?: string
  /** Replaces headers; an empty value removes one. */
  readonly headers?: HeaderMap
  readonly body?: Readonly<Record<string, unknown>>
}

const makeClient = (
  base: string,
  clock: { readonly time: number },
  seeded: SeededPlane,
  selector: boolean
) => {
  const authorization = basic("music", seeded.musicSecret)
  const selectors = selector ? { "x-testing-application": authorization } : {}
  const call = (method: string, path: string, headers: HeaderMap, body?: string) =>
    send(base, method, `/api/v1${path}`, { authorization, ...selectors, ...headers }, body)

  const form = (path: string, fields: Readonly<Record<string, string>>, headers: HeaderMap = {}) =>
    call(
      "POST",
      path,
      { "content-type": "application/x-www-form-urlencoded", ...headers },
      new URLSearchParams(fields).toString()
    )

  const json = (path: string, body: unknown, headers: HeaderMap = {}) =>
    call("POST", path, { "content-type": "application/json", ...headers }, JSON.stringify(body))

  const keyed = (value: string) => ({ "idempotency-key": value })

  return {
    call,
    form,
    json,
    get: (path: string, headers: HeaderMap = {}) => call("GET", path, headers),
    login: (slt: string, idempotencyKey = key(slt)) =>
      form("/app-auth/tokens", { app_id: "music", slt }, keyed(idempotencyKey)),
    introspect: (token: string, headers: HeaderMap = {}) => form("/oauth/introspect", { token }, headers),
    revoke: (token: string, idempotencyKey = key(token)) =>
      form("/oauth/revoke", { token }, keyed(idempotencyKey)),
    exchange: (input: ExchangeInput) => {
      const idempotencyKey = input.key ?? key("attempt")
      const timestamp = input.timestamp ?? String(Math.floor(clock.time / 1000))
      const bodySha256 = sha256(input.bytes ?? "{}")
      const headers: HeaderMap = {
        "idempotency-key": idempotencyKey,
        "x-obo-timestamp": timestamp,
        "x-obo-signature": signExchange(seeded.musicSecret, {
          timestamp,
          method: "POST",
          path: input.path ?? "/v1/tings",
          bodySha256,
          idempotencyKey
        }),
        ...input.headers
      }
      return json(
        "/obo-access/exchanges",
        {
          org_id: input.orgId ?? null,
          subject_token: input.subject,
          audience: "ting",
          endpoint_id: input.endpointId ?? "tings.send",
          metadata: input.metadata ?? {},
          request: { method: "POST", body_sha256: bodySha256 },
          ...input.body
        },
        Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ""))
      )
    },
    /** With Ting's credentials. */
    verify: (
      proof: string,
      change: { readonly path?: string; readonly method?: string } = {},
      headers: HeaderMap = {}
    ) => {
      const ting = basic("ting", seeded.tingSecret)
      return json(
        "/obo-access/verify",
        {
          access_proof: proof,
          request: {
            method: change.method ?? "POST",
            path: change.path ?? "/v1/tings",
            body_sha256: sha256("{}")
          }
        },
        { authorization: ting, ...(selector ? { "x-testing-application": ting } : {}), ...headers }
      )
    }
  }
}

export type Client = ReturnType<typeof makeClient>

/** A seeded simulator with a clock that only the test moves. */
export const startBench = async (): Promise<Bench> => {
  const clock = { time: start }
  const iam = await startIam({ now: () => clock.time })
  const seeded = seedIam(iam.controls)
  return {
    iam,
    seeded,
    clock,
    production: makeClient(iam.url, clock, seeded.production, false),
    testing: makeClient(iam.url, clock, seeded.environment, true)
  }
}

/** Logs an actor in to music in production. */
export const loggedIn = async (
  bench: Bench,
  actor = "si:deejay",
  options: { readonly orgs?: ReadonlyArray<string> } = {}
): Promise<{ readonly access: string }> => {
  const slt = bench.iam.controls.mintSlt("production", { appId: "music", actor, ...options })
  const answer = await bench.production.login(slt)
  return { access: textAt(answer.json, "access_token") }
}
