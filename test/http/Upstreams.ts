/** IAM and Ting in memory, on the clock of the test. A test says by path what becomes of a call. */
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import { makeIam, production } from "../../sandbox/upstreams/Iam.ts"
import { encodeReply, type Reply, type Seen } from "../../sandbox/upstreams/Simulator.ts"
import { makeTing } from "../../sandbox/upstreams/Ting.ts"
import type { Delivery, Send } from "../../src/layers/upstream/UpstreamTransport.ts"
import { monotonicMillis } from "../../src/services/MonotonicTime.ts"
import { seenAt } from "../world/InMemory.ts"
import { seedTestIam } from "../world/SeededIam.ts"
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

/** A reply in place of the upstream's own; no connection; no answer until the deadline. */
export type Fault =
  | { readonly kind: "reply"; readonly reply: Reply }
  | { readonly kind: "unsent" }
  | { readonly kind: "hang" }

export interface Rule {
  /** Default: every path of IAM and Ting. */
  readonly path?: string
  /** Default: until the faults are cleared. */
  readonly times?: number
  readonly fault: Fault
}

export const refusal = (status: number, code: string): Fault => ({
  kind: "reply",
  reply: { status, body: { error: { code, message: code } } }
})

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
        const asked = {
          origin: iamUrl,
          path: String(url).slice(iamUrl.length),
          method: init?.method === "GET" ? "GET" : "POST",
          headers: Object.fromEntries(new Headers(init?.headers)),
          body: typeof init?.body === "string" ? init.body : undefined,
          maxResponseBytes: Number.POSITIVE_INFINITY,
          deadlineAt: Number.POSITIVE_INFINITY
        } as const
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

    const execute = async (call: Seen, isIam: boolean): Promise<Delivery> => {
      const reply = await (isIam ? iam.handle(call) : ting.handle(call))
      call.status = reply.status
      return answerOf(isIam ? iam.decorate(call) : ting.decorate(), reply)
    }

    const send: Send = (request, settle) => {
      const call = seenAt(now(), request)
      seen.push(call)
      const fault = takeFault(call.path)
      const late = Effect.flatMap(monotonicMillis, (from) =>
        Effect.delay(Effect.succeed<Delivery>({ _tag: "Late" }), request.deadlineAt - from)
      )
      const delivery = {
        reply: () => Effect.succeed(answerOf({}, fault?.kind === "reply" ? fault.reply : { status: 500 })),
        unsent: () => Effect.succeed<Delivery>({ _tag: "NotSent", code: "ECONNREFUSED" }),
        hang: () => late,
        none: () => Effect.promise(() => execute(call, request.origin === iamUrl))
      }[fault?.kind ?? "none"]()
      return Runtime.runCallback(runtime)(Effect.map(delivery, (delivered) => settle(delivered)))
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
