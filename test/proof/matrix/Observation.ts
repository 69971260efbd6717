/** One cell: the failure, the request, what came of it, and the same request when the failure is over. */
import { type CallName, calls, registerSender } from "../../world/Calls.ts"
import { type Answer, bodyOf, isSuccess, refusalOf, retryAfterOf, type Sent } from "../../world/Driver.ts"
import { type PathName, pathNames, type UpstreamName } from "../../world/Faults.ts"
import { openWorld, type World, type WorldOptions } from "../../world/World.ts"
import type { Failure } from "./Failures.ts"

/** How an observation is written, and so how the table is written: `503 dependency_unavailable, 5 s ×3; spent → 401 unauthenticated`. */
export interface Observation {
  readonly text: string
  /** What no cell may show: a false envelope, a redirect that was followed, something done twice. */
  readonly problems: ReadonlyArray<string>
  readonly requests: number
  readonly calls: number
}

export const address = "192.0.2.1"
/** Seconds between two probes of introspection (api.md, refresh). */
const probePause = 1.1
/** Seconds. Ting's own limit is not remembered, and a token would expire in an hour. */
const longestWait = 60

/** IAM's conflict about the key of a proof, which the service never uses twice. The document has no such answer to this call. */
const undocumented = "POST /api/v1/ting/subscription 409 does not fit"

/** A world of one instance for one cell, where IAM has no limit and every pause its middle length. */
export const inWorld = async (
  options: WorldOptions,
  play: (world: World) => Promise<Observation>
): Promise<Observation> => {
  const world = await openWorld({ iamLimit: Number.POSITIVE_INFINITY, steady: true, ...options })
  try {
    const seen = await play(world)
    const problems = world.oracle.problems().filter((problem) => !problem.startsWith(undocumented))
    return { ...seen, problems: [...seen.problems, ...problems] }
  } finally {
    world.faults.heal()
    await world.close()
  }
}

export const pass = ({ time }: World, milliseconds: number): Promise<void> =>
  time.runUntil(time.elapsed() + milliseconds)

export const injure = (
  { faults }: World,
  failing: ReadonlyArray<PathName>,
  upstream: UpstreamName,
  { fault }: Failure,
  times = Number.POSITIVE_INFINITY
): void => {
  if (typeof fault === "number") faults.skew(upstream, fault)
  else for (const path of failing) faults.plan({ path, fault, times })
}

/** Calls by path since a moment. */
export const countCalls = ({ upstreams }: World, from: number): ReadonlyMap<PathName, number> => {
  const counts = new Map<PathName, number>()
  for (const { path } of upstreams.calls.slice(from)) counts.set(path, (counts.get(path) ?? 0) + 1)
  return counts
}

/** What a success adds to its status: the outcome of a registration, or that the reporter is not verified. */
const detailOf = (call: CallName, answer: Answer): string => {
  const { reporter, ting } = bodyOf(answer)
  if (typeof ting === "object" && ting !== null && "error" in ting) return ` ting.error ${String(ting.error)}`
  return call === "report with a bearer" && answer.status === 200 && reporter === null ? " unverified" : ""
}

const outcomeOf = (call: CallName, answer: Answer): string => {
  const seconds = retryAfterOf(answer)
  const what = isSuccess(answer) ? detailOf(call, answer) : ` ${refusalOf(answer)?.code}`
  return `${answer.status}${what}${seconds === undefined ? "" : `, ${seconds} s`}`
}

interface CellRequest {
  readonly call: CallName
  readonly upstream: UpstreamName
  /** The paths that fail. */
  readonly failing: ReadonlyArray<PathName>
  readonly failure: Failure
  /** How many calls fail: all until the request is answered, or the first. */
  readonly times: number
}

/** A request that failed at a path goes no further. A login fetches the list of endpoints beside its first call. */
const calledBehind = (
  counts: ReadonlyMap<PathName, number>,
  { call, failing }: CellRequest
): ReadonlyArray<string> => {
  const order: ReadonlyArray<PathName> = calls[call].calls
  const last = Math.max(...failing.map((path) => order.indexOf(path)))
  return [...counts.keys()]
    .filter((path) => order.indexOf(path) > last && !(call === "login" && path === "catalogue"))
    .map((path) => `${path} was called all the same`)
}

/** The calls to the path that fails, then those to others that were made more than once. */
const callsText = (counts: ReadonlyMap<PathName, number>, failing: ReadonlyArray<PathName>): string => {
  const total = failing.reduce((sum, path) => sum + (counts.get(path) ?? 0), 0)
  const others = pathNames.filter((path) => !failing.includes(path) && (counts.get(path) ?? 0) > 1)
  const beside = others.map((path) => `${path} ×${counts.get(path)}`).join(", ")
  return `×${total}${beside === "" ? "" : ` (${beside})`}`
}

export const observe = (cell: CellRequest): Promise<Observation> =>
  // The second instance registers the sender of tings, so that the first one knows nothing of it.
  inWorld({ instances: cell.call === "ting" ? 2 : 1 }, async (world) => {
    const { call, failing, failure, times, upstream } = cell
    const { faults, time, upstreams } = world
    const [instance, other] = world.instances
    if (instance === undefined) throw new Error("the world has no instance")
    if (other !== undefined) await registerSender(world, other)
    const subject = calls[call].prepare({ world, name: "1" })
    const ask = (request: Sent) => time.complete(instance.send(address, request))
    injure(world, failing, upstream, failure, times)
    const from = upstreams.calls.length
    const answer = await ask(subject.request)
    const counts = countCalls(world, from)
    const state = await subject.state()
    faults.heal()
    // A client waits as long as it was asked to. A success with a part that failed does not say how long: a minute, as IAM asks at most.
    const least = isSuccess(answer) && detailOf(call, answer) !== "" ? 61 : probePause
    await pass(world, Math.max(Math.min(longestWait, retryAfterOf(answer) ?? 0), least) * 1_000)
    const again = await ask(subject.request)
    const dependency = refusalOf(answer)?.dependency
    const endsWell = isSuccess(again) && detailOf(call, again) === ""
    return {
      text: `${outcomeOf(call, answer)} ${callsText(counts, failing)}${state === "" ? "" : `; ${state}`}${endsWell ? "" : ` → ${outcomeOf(call, again)}`}`,
      problems: [
        ...(dependency === undefined || dependency === upstream
          ? []
          : [`details.dependency is ${dependency}`]),
        ...(isSuccess(answer) ? [] : calledBehind(counts, cell)),
        ...(isSuccess(again) ? await subject.problems(again) : [])
      ],
      requests: 2,
      calls: upstreams.calls.length
    }
  })
