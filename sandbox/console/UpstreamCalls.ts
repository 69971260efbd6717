/** Watches the simulators: which requests belong to which trace, what they carry, and which fault they met. */
import { isRecord, parseJson } from "../upstreams/Contract.ts"
import { headerOf, type Seen, type Simulator, type Watched } from "../upstreams/Simulator.ts"
import type { SimulatedUpstreams } from "../SimulatedUpstreams.ts"
import type { InjectedFaults } from "./InjectedFaults.ts"
import type { Journal } from "./Journal.ts"
import type { Participant, Upstream } from "./Protocol.ts"

/** The trace id of a W3C `traceparent`. */
const traceOf = (request: Seen): string | undefined =>
  /^00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/.exec(headerOf(request, "traceparent") ?? "")?.[1]

/** Ting verifies proofs at IAM, under its own name. */
const senderOf = (request: Seen): Participant =>
  headerOf(request, "user-agent")?.startsWith("ting/") === true ? "ting" : "backend"

/** Ids of the records of a batch. */
const recordsOf = (request: Seen): ReadonlyArray<string> => {
  const batch = parseJson(request.body)
  const records = isRecord(batch) && Array.isArray(batch.records) ? batch.records : []
  return records.flatMap((item) => {
    const { metadata } = isRecord(item) ? item : {}
    const id = isRecord(metadata) ? metadata.record_id : undefined
    return typeof id === "string" ? [id] : []
  })
}

/** Requests that a simulator keeps. Tests read all of them; the console reads none. */
const keptRequests = 1_000

const forgetOldest = (seen: Array<Seen>): void => {
  if (seen.length > keptRequests) seen.splice(0, keptRequests / 2)
}

/** Puts the calls of all simulators into the journal. `onChange` is called whenever one has arrived or ended. */
export const watchUpstreams = (
  world: SimulatedUpstreams,
  journal: Journal,
  faults: InjectedFaults,
  onChange: () => void
): void => {
  const watch = (upstream: Upstream, simulator: Simulator): void => {
    const running = new WeakMap<Watched, (endedAt: number, status: number | null) => void>()
    const arrive = (request: Watched): void => {
      forgetOldest(simulator.seen)
      const trace = traceOf(request)
      if (trace === undefined) return
      // The report of a delivery is named by its span.
      const contents = upstream === "tables" ? recordsOf(request) : []
      for (const content of contents) journal.recordCarried(trace, content)
      running.set(
        request,
        journal.recordCall(trace, {
          from: senderOf(request),
          to: upstream,
          method: request.method,
          path: request.path,
          startedAt: request.at,
          fault: request.faultRule === undefined ? null : faults.kindOf(request.faultRule)
        })
      )
    }
    simulator.watch((request) => {
      if (request.endedAt === undefined) arrive(request)
      else running.get(request)?.(request.endedAt, request.status ?? null)
      onChange()
    })
  }
  watch("iam", world.iam)
  watch("ting", world.ting)
  watch("tables", world.tables)
  watch("tracker", world.tracker)
}
