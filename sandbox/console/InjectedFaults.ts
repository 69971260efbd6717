/** The faults that a person injected: four kinds, each in the form of its upstream. */
import type { SimulatedUpstreams } from "../SimulatedUpstreams.ts"
import { patternOf } from "../upstreams/Contract.ts"
import { iamFaults } from "../upstreams/Iam.ts"
import type { Fault, FaultRule } from "../upstreams/Simulator.ts"
import { rateLimited as tablesLimited } from "../upstreams/Tables.ts"
import { rateLimited as tingLimited } from "../upstreams/Ting.ts"
import { trackerFaults } from "../upstreams/Tracker.ts"
import type { Action, Fault as FaultView, FaultKind, Upstream } from "./Protocol.ts"

/** Seconds that a rate limit asks for: short, so that a person sees the retry. */
const retryAfter = 5

const rateLimits: Readonly<Record<Upstream, Fault>> = {
  iam: iamFaults.rateLimited(retryAfter),
  ting: tingLimited(retryAfter),
  tables: tablesLimited(retryAfter),
  tracker: trackerFaults.rateLimited(retryAfter)
}

const faultsOf = (upstream: Upstream): Readonly<Record<FaultKind, Fault>> => ({
  down: { kind: "drop" },
  slow: { kind: "delay", milliseconds: 3_000 },
  rateLimited: rateLimits[upstream],
  lost: { kind: "drop-after" }
})

/** The simulators hold the rules; what a person asked for is known by its rule. */
export const makeInjectedFaults = ({ iam, tables, ting, tracker }: SimulatedUpstreams) => {
  const simulators = { iam, ting, tables, tracker }
  const asked = new WeakMap<FaultRule, Omit<FaultView, "left">>()
  let lastId = 0
  const active = () =>
    Object.values(simulators)
      .flatMap((simulator) => simulator.activeFaults())
      .flatMap(({ left, rule }) => {
        const view = asked.get(rule)
        return view === undefined ? [] : [{ rule, ...view, left: Number.isFinite(left) ? left : null }]
      })
  return {
    /** The calls that the service, Ting or an operator makes at each upstream, as `METHOD /path`. */
    routes: {
      iam: iam.routes,
      ting: ting.routes,
      tables: tables.routes,
      tracker: tracker.routes
    } satisfies Record<Upstream, ReadonlyArray<string>>,
    /** False when the upstream has no such route. */
    add: ({ fault, route, times, upstream }: Extract<Action, { readonly kind: "addFault" }>): boolean => {
      if (route !== null && !simulators[upstream].routes.includes(route)) return false
      const [method = "", path = ""] = route?.split(" ") ?? []
      const rule: FaultRule = {
        ...(route === null ? {} : { method, path: patternOf(path) }),
        times: times ?? Number.POSITIVE_INFINITY,
        fault: faultsOf(upstream)[fault]
      }
      lastId += 1
      asked.set(rule, { id: lastId, upstream, route, fault })
      simulators[upstream].fail(rule)
      return true
    },
    /** The fault that it ended; `undefined` when it has ended already. */
    remove: (id: number): FaultView | undefined => {
      const found = active().find((fault) => fault.id === id)
      if (found !== undefined) simulators[found.upstream].removeFault(found.rule)
      return found
    },
    /** Newest first. */
    list: (): ReadonlyArray<FaultView> =>
      active()
        .map(({ rule: _, ...view }) => view)
        .sort((one, other) => other.id - one.id),
    kindOf: (rule: FaultRule): FaultKind | null => asked.get(rule)?.fault ?? null
  }
}

export type InjectedFaults = ReturnType<typeof makeInjectedFaults>
