/** What can happen to one upstream call, and the plan of a sequence for it. */
import { iamFaults } from "../../../sandbox/upstreams/Iam.ts"
import type { Reply } from "../../../sandbox/upstreams/Simulator.ts"

export const upstreamPaths = [
  "tokens",
  "introspect",
  "revoke",
  "catalogue",
  "context",
  "proof",
  "registration",
  "ting"
] as const
export type UpstreamPath = (typeof upstreamPaths)[number]

/** `before`: the upstream does not see the request. `after`: it commits, and only the answer is lost or replaced. */
export const faultKinds = [
  "refused",
  "lost before",
  "lost after",
  "500 before",
  "500 after",
  "503 before",
  "429 before",
  "hang before",
  "hang after",
  "page before",
  "page after",
  "kill before",
  "kill after"
] as const
export type FaultKind = (typeof faultKinds)[number] | "inactive"

/** A fault that stays until it is mended. */
export const outageKinds = [
  "refused",
  "lost before",
  "500 before",
  "503 before",
  "hang before",
  "page before"
] as const satisfies ReadonlyArray<FaultKind>

const paths: ReadonlyArray<readonly [UpstreamPath, RegExp]> = [
  ["tokens", /\/app-auth\/tokens$/],
  ["introspect", /\/oauth\/introspect$/],
  ["revoke", /\/oauth\/revoke$/],
  ["catalogue", /\/obo-access\/applications\/[^/]+\/endpoints$/],
  ["context", /\/application\/testing-context$/],
  ["proof", /\/obo-access\/exchanges$/],
  ["registration", /^\/v1\/subscriptions$/],
  ["ting", /^\/v1\/tings$/]
]

export const pathOf = (path: string): UpstreamPath => {
  const found = paths.find(([, pattern]) => pattern.test(path))
  if (found === undefined) throw new Error(`no upstream has the path ${path}`)
  return found[0]
}

const page: Reply = {
  status: 200,
  headers: { "content-type": "text/html" },
  body: "<html><body>Please wait</body></html>"
}

const replyOf = (fault: ReturnType<typeof iamFaults.internalError>): Reply =>
  fault.kind === "reply" ? fault.reply : page

/** The answer of a fault that answers. */
export const replies: Readonly<Partial<Record<FaultKind, Reply>>> = {
  "500 before": replyOf(iamFaults.internalError()),
  "500 after": replyOf(iamFaults.internalError()),
  "503 before": replyOf(iamFaults.serviceUnavailable()),
  "429 before": replyOf(iamFaults.rateLimited(7)),
  "page before": page,
  "page after": page,
  inactive: { status: 200, body: { active: false } }
}

/** The faults that wait for their call. */
export interface FaultPlan {
  /** `after`: the number of matching calls that pass before. */
  readonly add: (fault: {
    readonly path: UpstreamPath | "any"
    readonly after: number
    readonly kind: FaultKind
  }) => void
  readonly setOutage: (path: UpstreamPath, kind: FaultKind) => void
  readonly clear: () => void
  /** The fault of this call, counted. */
  readonly take: (path: UpstreamPath) => FaultKind | undefined
}

export const makeFaultPlan = (): FaultPlan => {
  let once: ReadonlyArray<{ readonly path: UpstreamPath | "any"; left: number; readonly kind: FaultKind }> =
    []
  const outages = new Map<UpstreamPath, FaultKind>()
  return {
    add: ({ after, kind, path }) => {
      once = [...once, { path, left: after, kind }]
    },
    setOutage: (path, kind) => void outages.set(path, kind),
    clear: () => {
      once = []
      outages.clear()
    },
    take: (path) => {
      const matching = once.filter((fault) => fault.path === "any" || fault.path === path)
      const due = matching.find(({ left }) => left === 0)
      for (const fault of matching) fault.left -= 1
      once = once.filter((fault) => fault !== due)
      return due?.kind ?? outages.get(path)
    }
  }
}
