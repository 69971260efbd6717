/** The `Iam` port over an IAM that answers as a test says, on the clock of the test: what the budget sends, and what it refuses. */
import * as HttpClient from "@effect/platform/HttpClient"
import { RequestError } from "@effect/platform/HttpClientError"
import * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { HttpIam } from "../../../src/layers/iam/HttpIam.ts"
import { digestOf } from "../../../src/services/Digest.ts"
import { Iam } from "../../../src/services/Iam.ts"
import { type Plane, Production, Testing } from "../../../src/services/Plane.ts"
import { Settings } from "../../../src/services/Settings.ts"
import {
  type IamCalls,
  sessionDigest,
  type SessionDigests,
  Store,
  type StoreService
} from "../../../src/services/Store.ts"
import type { UpstreamFailure } from "../../../src/services/UpstreamFailure.ts"
import { testSettings } from "../../world/Settings.ts"
import { makeTime } from "../delivery/Harness.ts"
import { inRequest, key, liveAnswer, startTime } from "./Simulated.ts"

export const paths = { tokens: "/app-auth/tokens", introspect: "/oauth/introspect", revoke: "/oauth/revoke" }
export const address = "203.0.113.1"
export const elsewhere = "203.0.113.2"

/** What IAM does with a call: it accepts or refuses the credential, fails, is not reached, or answers 429. */
export type Outcome = "accept" | "refuse" | "fail" | "unsent" | { readonly blockSeconds: number }

/** A call that reached IAM; milliseconds. */
interface SentCall {
  readonly path: string
  readonly at: number
  answeredAt: number
}

let names = 0
/** A credential that no call has presented. */
export const fresh = (prefix: "oac" | "oat" | "ort" | "ask") =>
  Redacted.make(`${prefix}_${String(++names).padStart(43, "x")}`)

const pair = () => ({
  access_token: Redacted.value(fresh("oat")),
  refresh_token: Redacted.value(fresh("ort")),
  token_type: "Bearer",
  expires_in: 1_800,
  scope: ""
})
const refusal = (code: string) => ({ error: { code, message: "no" } })

const responseOf = (path: string, outcome: Exclude<Outcome, "unsent">, second: number): Response => {
  if (outcome === "fail") return new Response("", { status: 500 })
  if (typeof outcome === "object")
    return Response.json(refusal("rate_limited"), {
      status: 429,
      headers: { "retry-after": String(outcome.blockSeconds) }
    })
  const accepts = outcome === "accept"
  if (path === paths.introspect)
    return Response.json(accepts ? liveAnswer(second, { authorizations: [] }) : { active: false })
  if (path === paths.revoke) return new Response("")
  if (!accepts)
    return Response.json(refusal(path === paths.tokens ? "invalid_grant" : "unauthenticated"), {
      status: 401
    })
  return Response.json(
    path === paths.tokens ? pair() : { environment_id: environmentId, application: { app_id: "music" } }
  )
}

const environmentId = "0199b000-0000-7000-8000-00000000000e"
export const testingPlane: Plane = Testing({
  environmentId,
  secret: Redacted.make(`ask_${"t".repeat(43)}`),
  webhookKeyDigest: undefined
})

type Left = Parameters<IamCalls["leave"]>[1]
export interface CountedOptions {
  readonly calls?: number
  readonly rateLimit?: boolean
  /** What processes that stopped left in the store. */
  readonly left?: Array<Left[number]>
}

export const countedIam = ({ calls = 110, left = [], rateLimit = true }: CountedOptions = {}) =>
  Effect.gen(function* () {
    const { jump, now, pass } = yield* makeTime(startTime)
    const sent: Array<SentCall> = []
    let next: { readonly outcome: Outcome; readonly delay: number } = { outcome: "accept", delay: 0 }
    const client = HttpClient.make((request, url) =>
      Effect.gen(function* () {
        const { delay, outcome } = next
        if (outcome === "unsent") return yield* new RequestError({ request, reason: "Encode" })
        const path = url.pathname.replace("/api/v1", "")
        const call: SentCall = { path, at: now(), answeredAt: Number.POSITIVE_INFINITY }
        sent.push(call)
        if (delay > 0) yield* Effect.sleep(delay)
        call.answeredAt = now()
        return HttpClientResponse.fromWeb(
          request,
          responseOf(path, outcome, Math.floor(call.answeredAt / 1_000))
        )
      })
    )
    /** What the store knows of tokens of other processes; a database would take most of the time of these tests. */
    const logins = new Map<string, { readonly login: string; readonly actor: string | null }>()
    const iamCalls: IamCalls = {
      take: () => Effect.sync(() => left.splice(0)),
      leave: (_, places) => Effect.sync(() => left.push(...places)).pipe(Effect.asVoid)
    }
    const sessionDigests: SessionDigests = {
      find: (digest) => Effect.sync(() => Option.fromNullable(logins.get(digest))),
      remember: () => Effect.void,
      ...{ forgetToken: () => Effect.void, forgetLogin: () => Effect.void }
    }
    // The budget reads these two only.
    const store = Layer.succeed(Store, { iamCalls, sessionDigests } as unknown as StoreService)
    const context = yield* Layer.build(
      HttpIam.pipe(
        Layer.provide(store),
        Layer.provide(Layer.succeed(HttpClient.HttpClient, client)),
        Layer.provide(
          Layer.succeed(
            Settings,
            testSettings({ rateLimit, iam: { url: "http://iam.test", callsPerMinute: calls } })
          )
        )
      )
    )
    const iam = Context.get(context, Iam)

    /** A token that another process handed out, as one of this login and actor. */
    const vouched = (prefix: "oat" | "ort", login = `login ${++names}`, actor: string | null = null) =>
      Effect.sync(() => {
        const token = fresh(prefix)
        logins.set(sessionDigest(`production ${digestOf(token)}`), { login, actor })
        return token
      })

    /** The seconds of a refusal by the budget; 0 for a call that was not refused by it. */
    const secondsOf = (call: Effect.Effect<unknown, UpstreamFailure>, from = address) =>
      Effect.map(Effect.either(inRequest(true, from)(call)), (result) =>
        result._tag === "Left" && result.left._tag === "Refused" && result.left.code === "over_budget"
          ? (result.left.retryAfterSeconds ?? Number.NaN)
          : 0
      )

    return {
      iam,
      sent,
      vouched,
      secondsOf,
      pass,
      /** The second of the test. */
      at: (second: number) => Effect.sync(() => jump(startTime + Math.round(second * 1_000) - now())),
      /** What IAM does with the calls from now on, after so many milliseconds. */
      answer: (outcome: Outcome, delay = 0) =>
        Effect.sync(() => {
          next = { outcome, delay }
        })
    }
  })
export type Counted = Effect.Effect.Success<ReturnType<typeof countedIam>>

const production = Production()
let keys = 0
const newKey = () => key(`key-${++keys}`)

/** Calls by the words of a test. A new credential each time, unless one is given. */
export const calls = {
  /** An introspection of an unknown token. */
  stranger: ({ iam }: Counted, token = fresh("oat")) => iam.introspect(production, token),
  known: ({ iam, vouched }: Counted, login?: string, actor?: string) =>
    Effect.flatMap(vouched("oat", login, actor), (token) => iam.introspect(production, token)),
  login: ({ iam }: Counted, slt = fresh("oac")) => iam.exchange(production, slt, newKey()),
  refresh: ({ iam, vouched }: Counted, login?: string, actor?: string) =>
    Effect.flatMap(vouched("ort", login, actor), (token) => iam.refresh(production, token, newKey())),
  logout: ({ iam, vouched }: Counted, login?: string, actor?: string) =>
    Effect.flatMap(vouched("ort", login, actor), (token) => iam.revoke(production, token, newKey())),
  strangeRefresh: ({ iam }: Counted, token = fresh("ort")) => iam.refresh(production, token, newKey()),
  strangeLogout: ({ iam }: Counted, token = fresh("ort")) => iam.revoke(production, token, newKey()),
  secret: ({ iam }: Counted, secret = fresh("ask")) => iam.resolvePlane(secret)
} satisfies Readonly<
  Record<string, (counted: Counted, ...given: Array<never>) => Effect.Effect<unknown, UpstreamFailure>>
>
