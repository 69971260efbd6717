/** IAM and Ting in memory, on the clock of the test. A test says by path what becomes of a call. */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Runtime from "effect/Runtime"
import { makeIam, production } from "../../sandbox/upstreams/Iam.ts"
import { encodeReply, type Reply, type Seen } from "../../sandbox/upstreams/Simulator.ts"
import { makeTing, type TingCode } from "../../sandbox/upstreams/Ting.ts"
import { errorReply } from "../../sandbox/upstreams/ting/Errors.ts"
import type { Delivery, OutgoingRequest, Send } from "../../src/layers/upstream/UpstreamTransport.ts"
import { monotonicMillis } from "../../src/services/MonotonicTime.ts"
import { seenAt } from "../support/InMemoryTransport.ts"
import { seedTestIam } from "../support/SeededIam.ts"
import { testNow } from "../layers/upstream/Simulated.ts"

export const iamUrl = "https://iam.test"
export const tingUrl = "https://ting.test"

export const paths = {
  tokens: "/api/v1/app-auth/tokens",
  introspect: "/api/v1/oauth/introspect",
  revoke: "/api/v1/oauth/revoke",
  proof: "/api/v1/obo-access/exchanges",
  context: "/api/v1/application/testing-context"
} as const

export type Fault =
  | { readonly kind: "reply"; readonly reply: Reply }
  /** The answer of the upstream, changed. */
  | { readonly kind: "alter"; readonly alter: (own: Reply) => Reply }
  /** The connection is lost before an answer; the upstream has not seen the call. */
  | { readonly kind: "drop" }
  | { readonly kind: "unsent" }
  | { readonly kind: "hang" }
  /** A fault of this program. */
  | { readonly kind: "throw" }
  /** The call is executed when the effect has ended. */
  | { readonly kind: "hold"; readonly until: Effect.Effect<unknown> }

export interface Rule {
  /** Default: every path of IAM and Ting. */
  readonly path?: string | undefined
  /** Default: until the faults are cleared. */
  readonly times?: number
  readonly fault: Fault
}

export const refusal = (status: number, code: string): Fault => ({
  kind: "reply",
  reply: { status, body: { error: { code, message: code } } }
})

export const tingRefusal = (code: TingCode): Fault => ({ kind: "reply", reply: errorReply(code) })

export const makeUpstreams = (rateLimit: number) =>
  Effect.gen(function* () {
    const runtime = yield* Effect.runtime<never>()
    const now = yield* testNow
    const iam = makeIam({ now, rateLimit })
    const seeded = seedTestIam(iam.controls)
    const answerOf = (own: Readonly<Record<string, string>>, reply: Reply): Delivery => {
      const { body, headers } = encodeReply(reply, { date: new Date(now()).toUTCString(), ...own })
      const lower = Object.entries({ ...headers }).map(([name, value]) => [name.toLowerCase(), value])
      return { _tag: "Answered", status: reply.status, headers: Object.fromEntries(lower), body }
    }
    const ting = makeTing({
      now,
      iamUrl,
      appSecret: seeded.production.tingSecret,
      fetch: (url, init) => {
        const asked: OutgoingRequest = {
          origin: iamUrl,
          path: String(url).slice(iamUrl.length),
          method: init?.method === "GET" ? "GET" : "POST",
          headers: Object.fromEntries(new Headers(init?.headers)),
          body: typeof init?.body === "string" ? init.body : undefined,
          maxResponseBytes: Number.POSITIVE_INFINITY,
          deadlineAt: Number.POSITIVE_INFINITY
        }
        const { body, status } = iam.handle(seenAt(now(), asked))
        return Promise.resolve(new Response(JSON.stringify(body), { status }))
      }
    })
    for (const plane of [production, seeded.environment.environmentId])
      ting.controls.registerType(plane, "music", "music.trigger.fired")

    /** Calls to both, oldest first. */
    const seen: Array<Seen> = []
    let rules: ReadonlyArray<Rule & { left: number }> = []

    const takeFault = (path: string): Fault | undefined => {
      const rule = rules.find((one) => one.left > 0 && (one.path === undefined || one.path === path))
      if (rule !== undefined) rule.left -= 1
      return rule?.fault
    }

    const deliver = (
      request: OutgoingRequest,
      call: Seen,
      fault: Fault | undefined
    ): Effect.Effect<Delivery> => {
      const execute = Effect.promise(async () => {
        const isIam = request.origin === iamUrl
        const own = await (isIam ? iam.handle(call) : ting.handle(call))
        const reply = fault?.kind === "alter" ? fault.alter(own) : own
        call.status = reply.status
        return answerOf(isIam ? iam.decorate(call) : ting.decorate(), reply)
      })
      switch (fault?.kind) {
        case "reply":
          return Effect.succeed(answerOf({}, fault.reply))
        case "drop":
          return Effect.succeed({ _tag: "Lost", code: "ECONNRESET", withinResponse: false })
        case "unsent":
          return Effect.succeed({ _tag: "NotSent", code: "ECONNREFUSED" })
        case "hang":
          return Effect.flatMap(monotonicMillis, (from) =>
            Effect.delay(Effect.succeed<Delivery>({ _tag: "Late" }), request.deadlineAt - from)
          )
        case "hold":
          return Effect.zipRight(fault.until, execute)
        default:
          return execute
      }
    }

    const send: Send = (request, settle) => {
      const call = seenAt(now(), request)
      seen.push(call)
      const fault = takeFault(call.path)
      if (fault?.kind === "throw") throw new Error("a fault of this program")
      const fiber = Runtime.runFork(runtime)(
        Effect.map(deliver(request, call, fault), (delivery) => settle(delivery))
      )
      return () => Runtime.runFork(runtime)(Fiber.interruptFork(fiber))
    }

    return {
      iam,
      ting,
      seeded,
      seen,
      send,
      asked: (path: string): ReadonlyArray<Seen> => seen.filter((call) => call.path === path),
      fail: (rule: Rule): void => {
        rules = [...rules, { ...rule, left: rule.times ?? Number.POSITIVE_INFINITY }]
      },
      clearFaults: (): void => {
        rules = []
      }
    }
  })

export type Upstreams = Effect.Effect.Success<ReturnType<typeof makeUpstreams>>
