/** IAM and Ting in memory, on the clock of the test. A test says by path what becomes of a call. */
import * as Effect from "effect/Effect"
import type { Reply, Seen } from "../../sandbox/upstreams/Simulator.ts"
import { answered, clientOf, type Ending, seenAt } from "../world/InMemory.ts"
import { iamUrl, makeIamAndTing } from "../world/SeededIam.ts"
import { testNow } from "../layers/upstream/Simulated.ts"

export const tingUrl = "https://ting.test"

export const paths = {
  tokens: "/api/v1/app-auth/tokens",
  introspect: "/api/v1/oauth/introspect",
  proof: "/api/v1/obo-access/exchanges",
  context: "/api/v1/application/testing-context"
} as const

interface Rule {
  /** Default: every path of IAM and Ting. */
  readonly path?: string
  /** Default: until the faults are cleared. */
  readonly times?: number
  /** In place of the upstream's own. */
  readonly fault: Reply
}

export const refusal = (status: number, code: string): Reply => ({
  status,
  body: { error: { code, message: code } }
})

export const makeUpstreams = Effect.gen(function* () {
  const now = yield* testNow
  const { iam, seeded, ting } = makeIamAndTing({ iam: now, ting: now }, Number.POSITIVE_INFINITY)
  /** Calls to both, oldest first. */
  const seen: Array<Seen> = []
  let rules: ReadonlyArray<Rule & { left: number }> = []

  const takeFault = (path: string): Reply | undefined => {
    const rule = rules.find((one) => one.left > 0 && (one.path === undefined || one.path === path))
    if (rule !== undefined) rule.left -= 1
    return rule?.fault
  }

  const execute = async (call: Seen, isIam: boolean): Promise<Ending> => {
    const reply = await (isIam ? iam.handle(call) : ting.handle(call))
    call.status = reply.status
    return answered(reply, now(), isIam ? iam.decorate(call) : ting.decorate())
  }

  const client = clientOf((outgoing) => {
    const call = seenAt(now(), outgoing)
    seen.push(call)
    const fault = takeFault(call.path)
    return fault === undefined
      ? Effect.promise(() => execute(call, outgoing.url.origin === iamUrl))
      : Effect.succeed(answered(fault, now(), {}))
  })

  return {
    iam,
    ting,
    seeded,
    seen,
    client,
    asked: (path: string): ReadonlyArray<Seen> => seen.filter((call) => call.path === path),
    fail: (rule: Rule): void => {
      rules = [...rules, { ...rule, left: rule.times ?? Number.POSITIVE_INFINITY }]
    },
    clearFaults: (): void => {
      rules = []
    }
  }
})
