/**
 * What can happen to a call to an upstream: one vocabulary for all suites. A rule names a path, the fault, and the calls that meet it:
 * one, some, or all until it is healed.
 */
import { iamFaults } from "../../sandbox/upstreams/Iam.ts"
import type { Reply } from "../../sandbox/upstreams/Simulator.ts"
import type { UpstreamCall } from "./Upstreams.ts"

export type UpstreamName = "iam" | "ting" | "tables" | "tracker"

interface Path {
  readonly upstream: UpstreamName
  readonly method: "GET" | "POST" | "PATCH"
  readonly pattern: RegExp
}

/** The paths of the upstreams that the service calls. */
export const paths = {
  tokens: { upstream: "iam", method: "POST", pattern: /^\/api\/v1\/app-auth\/tokens$/ },
  introspect: { upstream: "iam", method: "POST", pattern: /^\/api\/v1\/oauth\/introspect$/ },
  revoke: { upstream: "iam", method: "POST", pattern: /^\/api\/v1\/oauth\/revoke$/ },
  context: { upstream: "iam", method: "GET", pattern: /^\/api\/v1\/application\/testing-context$/ },
  catalogue: {
    upstream: "iam",
    method: "GET",
    pattern: /^\/api\/v1\/obo-access\/applications\/ting\/endpoints$/
  },
  proof: { upstream: "iam", method: "POST", pattern: /^\/api\/v1\/obo-access\/exchanges$/ },
  registration: { upstream: "ting", method: "POST", pattern: /^\/v1\/subscriptions$/ },
  ting: { upstream: "ting", method: "POST", pattern: /^\/v1\/tings$/ },
  ingest: { upstream: "tables", method: "POST", pattern: /^\/api\/ingest$/ },
  create: { upstream: "tracker", method: "POST", pattern: /\/issues$/ },
  list: { upstream: "tracker", method: "GET", pattern: /\/issues$/ },
  user: { upstream: "tracker", method: "GET", pattern: /^\/user$/ },
  comment: { upstream: "tracker", method: "POST", pattern: /\/issues\/\d+\/comments$/ },
  close: { upstream: "tracker", method: "PATCH", pattern: /\/issues\/\d+$/ }
} as const satisfies Readonly<Record<string, Path>>

export type PathName = keyof typeof paths

// The keys of the constant above.
export const pathNames = Object.keys(paths) as ReadonlyArray<PathName>

/** The name of a path; a call to another one is a defect of the service or of this table. */
export const pathOf = (upstream: UpstreamName, method: string, path: string): PathName => {
  const found = pathNames.find((name) => {
    const known: Path = paths[name]
    return known.upstream === upstream && known.method === method && known.pattern.test(path)
  })
  if (found === undefined) throw new Error(`no contract has ${method} ${path} of ${upstream}`)
  return found
}

/** `before`: the upstream does not see the request. `after`: it commits, and only the answer is lost or replaced. */
export type When = "before" | "after"

export type Fault =
  /** Nothing listens: no byte was sent. */
  | { readonly kind: "refused" }
  /** The connection breaks; `within` the answer, of which a part has come. */
  | { readonly kind: "lost"; readonly when: When | "within" }
  /** No answer until the deadline of the call. */
  | { readonly kind: "hang"; readonly when: When }
  | { readonly kind: "answer"; readonly when: When; readonly reply: Reply }
  /** The upstream's own answer, changed. */
  | { readonly kind: "alter"; readonly alter: (own: Reply, now: number) => Reply }
  /** The process that makes the call dies. */
  | { readonly kind: "kill"; readonly when: When }

export const answer = (
  when: When,
  status: number,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {}
): Fault => ({ kind: "answer", when, reply: { status, headers, body } })

const page = "<html><body>Please wait</body></html>"
const pageAs = (when: When, status = 200) => answer(when, status, page, { "content-type": "text/html" })

/** The answer of IAM's own fault. */
const ofIam = (when: When, fault: ReturnType<typeof iamFaults.internalError>): Fault =>
  fault.kind === "reply" ? { kind: "answer", when, reply: fault.reply } : pageAs(when, 500)

/** The faults that several suites use, by their names. */
export const faults = {
  refused: { kind: "refused" },
  "lost before": { kind: "lost", when: "before" },
  "lost after": { kind: "lost", when: "after" },
  "hang before": { kind: "hang", when: "before" },
  "hang after": { kind: "hang", when: "after" },
  "500 before": ofIam("before", iamFaults.internalError()),
  "500 after": ofIam("after", iamFaults.internalError()),
  "503 before": ofIam("before", iamFaults.serviceUnavailable()),
  "429 before": ofIam("before", iamFaults.rateLimited(7)),
  "page before": pageAs("before"),
  "page after": pageAs("after"),
  "kill before": { kind: "kill", when: "before" },
  "kill after": { kind: "kill", when: "after" },
  /** A false verdict about a token. */
  inactive: answer("before", 200, { active: false })
} as const satisfies Readonly<Record<string, Fault>>

export type FaultName = keyof typeof faults

export interface FaultRule {
  readonly path: PathName | "any"
  readonly fault: Fault
  /** Matching calls that pass before; default none. */
  readonly after?: number
  /** Calls that meet the fault; default 1, `Infinity` for all until `heal`. */
  readonly times?: number
  /** The fault waits for such a call. */
  readonly when?: (call: UpstreamCall) => boolean
}

interface Planned {
  readonly rule: FaultRule
  /** Calls that pass before, and calls that meet it. */
  pass: number
  left: number
}

export const makeFaults = () => {
  let planned: ReadonlyArray<Planned> = []

  return {
    plan: (rule: FaultRule) => {
      planned = [...planned, { rule, pass: rule.after ?? 0, left: rule.times ?? 1 }]
    },
    /** Ends every fault. */
    heal: () => {
      planned = []
    },
    /** The fault of this call, which counts it. */
    take: (call: UpstreamCall): Fault | undefined => {
      const matching = planned.filter(({ rule: { path } }) => path === "any" || path === call.path)
      const due = matching.filter(({ pass, rule }) => pass <= 0 && rule.when?.(call) !== false)
      for (const one of matching) one.pass -= 1
      // A fault of some calls comes before one of all; of two that last, the later one replaces the earlier.
      const met = due.find(({ left }) => Number.isFinite(left)) ?? due.at(-1)
      if (met === undefined) return undefined
      met.left -= 1
      planned = planned.filter(({ left }) => left > 0)
      return met.rule.fault
    }
  }
}

export type Faults = ReturnType<typeof makeFaults>
