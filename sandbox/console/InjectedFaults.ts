/** The faults that a person injected: four kinds, each in the form of its upstream. */
import { repositoryName, type SimulatedUpstreams } from "../SimulatedUpstreams.ts"
import { patternOf } from "../upstreams/Contract.ts"
import { iamFaults } from "../upstreams/Iam.ts"
import type { Fault, FaultRule } from "../upstreams/Simulator.ts"
import { rateLimited as tablesLimited } from "../upstreams/Tables.ts"
import { rateLimited as tingLimited } from "../upstreams/Ting.ts"
import { trackerFaults } from "../upstreams/Tracker.ts"
import type { Action, Fault as FaultView, FaultKind, Upstream } from "./Protocol.ts"

/** Seconds that a rate limit asks for: short, so that a person sees the retry. */
const retryAfter = 5
const slowMilliseconds = 3_000

const rateLimits: Readonly<Record<Upstream, Fault>> = {
  iam: iamFaults.rateLimited(retryAfter),
  ting: tingLimited(retryAfter),
  tables: tablesLimited(retryAfter),
  tracker: trackerFaults.rateLimited(retryAfter)
}

const faultOf = (upstream: Upstream, kind: FaultKind): Fault => {
  switch (kind) {
    case "down":
      return { kind: "drop" }
    case "slow":
      return { kind: "delay", milliseconds: slowMilliseconds }
    case "rateLimited":
      return rateLimits[upstream]
    case "lost":
      return { kind: "drop-after" }
  }
}

/** The calls that the service, or Ting, makes at each upstream, as `METHOD /path`. */
const routeNames: Readonly<Record<Upstream, ReadonlyArray<string>>> = {
  iam: [
    "POST /api/v1/app-auth/tokens",
    "POST /api/v1/oauth/introspect",
    "POST /api/v1/oauth/revoke",
    "POST /api/v1/obo-access/exchanges",
    "POST /api/v1/obo-access/verify",
    "GET /api/v1/obo-access/applications/ting/endpoints",
    "GET /api/v1/application/testing-context"
  ],
  ting: ["POST /v1/subscriptions", "POST /v1/tings"],
  tables: ["POST /api/ingest"],
  tracker: [
    `POST /repos/${repositoryName}/issues`,
    `GET /repos/${repositoryName}/issues`,
    `POST /repos/${repositoryName}/issues/{number}/comments`,
    `PATCH /repos/${repositoryName}/issues/{number}`,
    "GET /user"
  ]
}

interface Injected {
  readonly id: number
  readonly upstream: Upstream
  readonly route: string | null
  readonly kind: FaultKind
  readonly rule: FaultRule
}

type Order = Extract<Action, { readonly kind: "addFault" }>

export class InjectedFaults {
  readonly routeNames = routeNames
  private readonly world: SimulatedUpstreams
  private injected: ReadonlyArray<Injected> = []
  private readonly kinds = new WeakMap<FaultRule, FaultKind>()
  private lastId = 0

  constructor(world: SimulatedUpstreams) {
    this.world = world
  }

  /** False when the upstream has no such route. */
  add({ fault, route, times, upstream }: Order): boolean {
    if (route !== null && !routeNames[upstream].includes(route)) return false
    const [method = "", path = ""] = route?.split(" ") ?? []
    const rule: FaultRule = {
      ...(route === null ? {} : { method, path: patternOf(path) }),
      times: times ?? Number.POSITIVE_INFINITY,
      fault: faultOf(upstream, fault)
    }
    this.lastId += 1
    this.injected = [...this.active(), { id: this.lastId, upstream, route, kind: fault, rule }]
    this.kinds.set(rule, fault)
    this.world[upstream].fail(rule)
    return true
  }

  /** False when it has ended already. */
  remove(id: number): boolean {
    const found = this.active().find((fault) => fault.id === id)
    if (found === undefined) return false
    this.world[found.upstream].removeFault(found.rule)
    return true
  }

  /** Newest first. */
  list(): ReadonlyArray<FaultView> {
    return this.active()
      .map(({ id, kind, route, rule, upstream }) => {
        const left = this.leftOf(upstream, rule) ?? 0
        return { id, upstream, route, fault: kind, left: Number.isFinite(left) ? left : null }
      })
      .reverse()
  }

  kindOf(rule: FaultRule): FaultKind | null {
    return this.kinds.get(rule) ?? null
  }

  private active(): ReadonlyArray<Injected> {
    this.injected = this.injected.filter(({ rule, upstream }) => this.leftOf(upstream, rule) !== undefined)
    return this.injected
  }

  private leftOf(upstream: Upstream, rule: FaultRule): number | undefined {
    return this.world[upstream].activeFaults().find((active) => active.rule === rule)?.left
  }
}
