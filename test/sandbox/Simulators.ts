/** Requests to the simulators, in memory: any header, any number of times; and an IAM with clients of it. */
import { signExchange } from "../../sandbox/upstreams/Iam.ts"
import { sha256 } from "../../sandbox/upstreams/Contract.ts"
import type { Handle, Reply } from "../../sandbox/upstreams/Simulator.ts"
import { makeFaults } from "../world/Faults.ts"
import { makeSimulatedTime } from "../world/Time.ts"
import { makeUpstreams } from "../world/Upstreams.ts"

export type HeaderMap = Readonly<Record<string, string | ReadonlyArray<string>>>

export const send = async (
  handle: Handle,
  method: string,
  target: string,
  headers: HeaderMap = {},
  body: string | Buffer = ""
): Promise<Reply> => {
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
export const textAt = (value: unknown, ...names: ReadonlyArray<string>): string => {
  const found = names.reduce<unknown>(
    (at, name) => (typeof at === "object" && at !== null ? Reflect.get(at, name) : undefined),
    value
  )
  return typeof found === "string" ? found : ""
}

/** Status and error code on one line: `400 invalid_grant`. */
export const outcome = ({ body, status }: Reply): string =>
  `${status} ${textAt(body, "error", "code")}`.trim()

export const basic = (appId: string, secret: string): string =>
  `Basic ${Buffer.from(`${appId}:${secret}`).toString("base64")}`
export const key = (name: string): string => `${name}-0000000000000000`
export const form = { "content-type": "application/x-www-form-urlencoded" }
export const jsonType = { "content-type": "application/json" }

/** 2026-09-25T10:15:30Z, the time of the contract's vectors, seconds. */
export const start = 1_790_331_330

export interface Exchange
  extends Partial<
    Record<"subject" | "key" | "endpointId" | "path" | "bytes" | "timestamp" | "orgId", string>
  > {
  readonly metadata?: unknown
  /** Replaces headers; an empty value removes one. */
  readonly headers?: HeaderMap
  readonly body?: object
}

/** The simulators of the shared world, with a clock that only the test moves, and clients of IAM in production and by an application selector. */
export const startBench = () => {
  const time = makeSimulatedTime(start * 1_000)
  const { iam, seeded, tables, ting, tracker } = makeUpstreams({ time, faults: makeFaults(), observers: [] })
  const { controls, handle } = iam
  const clientOf = (musicSecret: string, isSelected: boolean) => {
    const as = (appId: string, secret: string) => {
      const authorization = basic(appId, secret)
      return { authorization, ...(isSelected ? { "x-testing-application": authorization } : {}) }
    }
    const call = (method: string, path: string, headers: HeaderMap = {}, body = "") =>
      send(handle, method, `/api/v1${path}`, { ...as("music", musicSecret), ...headers }, body)
    const login = (slt: string) => {
      const body = new URLSearchParams({ app_id: "music", slt }).toString()
      return call("POST", "/app-auth/tokens", { ...form, "idempotency-key": key(slt) }, body)
    }
    return {
      call,
      login,
      exchange: (given: Exchange) => {
        const idempotencyKey = given.key ?? key("attempt")
        const timestamp = given.timestamp ?? String(Math.floor(time.now() / 1_000))
        const bodySha256 = sha256(given.bytes ?? "{}")
        const path = given.path ?? "/v1/tings"
        const headers: HeaderMap = {
          ...jsonType,
          "idempotency-key": idempotencyKey,
          "x-obo-timestamp": timestamp,
          "x-obo-signature": signExchange(musicSecret, {
            timestamp,
            method: "POST",
            path,
            bodySha256,
            idempotencyKey
          }),
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
      }
    }
  }
  const { environment, production } = seeded
  const music = clientOf(production.musicSecret, false)
  return {
    ...{ controls, handle, seeded, tables, time, ting, tracker },
    production: music,
    testing: clientOf(environment.musicSecret, true),
    /** Logs an actor in to music in production; resolves to its access token. */
    accessOf: async (actor = "si:deejay", options: { readonly orgs?: ReadonlyArray<string> } = {}) => {
      const slt = controls.mintSlt("production", { appId: "music", actor, ...options })
      return textAt((await music.login(slt)).body, "access_token")
    }
  }
}
