/** One cell: the failure, the request, what came of it, and the same request when the failure is over. */
import { production } from "../../../sandbox/upstreams/Iam.ts"
import { type CallName, calls, registerSender, tokensOf } from "../../world/Calls.ts"
import { type Answer, bodyOf, isSuccess, refusalOf, retryAfterOf, type Sent } from "../../world/Driver.ts"
import { type PathName, pathNames, paths } from "../../world/Faults.ts"
import { openWorld, type World } from "../../world/World.ts"
import type { Failure } from "./Failures.ts"

const address = "192.0.2.1"
/** Seconds between two probes of introspection (api.md, refresh). */
const probePause = 1.1
/** Seconds. Ting's own limit is not remembered, and a token would expire in an hour. */
const longestWait = 60

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
  /** The path that fails. */
  readonly path: PathName
  readonly failure: Failure
  /** How many calls fail: all until the request is answered, or the first. */
  readonly times: number
  /** The cell of a request that succeeds. */
  readonly well: string
}

const detailNames: ReadonlyArray<string> = ["dependency", "upstream_code", "upstream_request_id"]

/** A failure names the upstream, and its refusal where it sent one; nothing else, such as the reason in the log. A dead token is ours to tell. */
const detailsProblems = (answer: Answer, { failure, path }: CellRequest): ReadonlyArray<string> => {
  const { code, details = {} }: Partial<ReturnType<typeof refusalOf>> = refusalOf(answer) ?? {}
  const names = Object.keys(details)
  const [, refusal = details.upstream_code] = /^4\d\d ([a-z_]+)$/.exec(failure.id) ?? []
  const fits =
    details.dependency === paths[path].upstream &&
    details.upstream_code === refusal &&
    names.every((name) => detailNames.includes(name))
  const isOurs = code === "unauthenticated" && names.length === 0
  return isOurs || fits ? [] : [`the details are ${JSON.stringify(details)}`]
}

/** A request that failed at a path goes no further. */
const calledBehind = (
  counts: ReadonlyMap<PathName, number>,
  { call, path: failing }: CellRequest
): ReadonlyArray<string> => {
  const order: ReadonlyArray<PathName> = calls[call].calls
  const last = order.indexOf(failing)
  return [...counts.keys()]
    .filter((path) => order.indexOf(path) > last)
    .map((path) => `${path} was called all the same`)
}

/** The calls to the path that fails, then those to others that were made more than once. */
const callsText = (counts: ReadonlyMap<PathName, number>, failing: PathName): string => {
  const others = pathNames.filter((path) => path !== failing && (counts.get(path) ?? 0) > 1)
  const beside = others.map((path) => `${path} ×${counts.get(path)}`).join(", ")
  return `×${counts.get(failing) ?? 0}${beside === "" ? "" : ` (${beside})`}`
}

/** What is wrong with the pair of an answer that has one. */
const deadTokens = ({ upstreams }: World, answer: Answer): ReadonlyArray<string> => {
  const { accessTokens, refreshTokens } = upstreams.iam.controls.plane(production)
  const { access = "", refresh = "" } = tokensOf(answer) ?? {}
  if (access === "") return []
  const isLive = accessTokens.get(access)?.revoked === false && refreshTokens.get(refresh)?.consumed === false
  return isLive ? [] : ["the pair of the answer is not live"]
}

const observeIn = async (world: World, cell: CellRequest) => {
  const { call, failure, path, times } = cell
  const { faults, oracle, time, upstreams } = world
  const [instance, other] = world.instances
  if (instance === undefined) throw new Error("the world has no instance")
  if (other !== undefined) await registerSender(world, other)
  const subject = calls[call].prepare({ world, name: "1" })
  const ask = (request: Sent) => time.complete(instance.send(address, request))
  faults.plan({ path, fault: failure.fault, times })
  const from = upstreams.calls.length
  const answer = await ask(subject.request)
  const counts = new Map<PathName, number>()
  for (const called of upstreams.calls.slice(from))
    counts.set(called.path, (counts.get(called.path) ?? 0) + 1)
  const state = await subject.state()
  faults.heal()
  // A client waits as long as it was asked to. A success with a part that failed does not say how long: a minute, as IAM asks at most.
  const least = isSuccess(answer) && detailOf(call, answer) !== "" ? 61 : probePause
  const pause = Math.max(Math.min(longestWait, retryAfterOf(answer) ?? 0), least) * 1_000
  await time.runUntil(time.elapsed() + pause)
  const again = await ask(subject.request)
  const endsWell = isSuccess(again) && detailOf(call, again) === ""
  const [, wanted = ""] = endsWell ? cell.well.split("; ") : ["", state]
  const end = await subject.state()
  return {
    // How the table is written: `503 dependency_unavailable, 5 s ×3; spent → 401 unauthenticated`.
    text: `${outcomeOf(call, answer)} ${callsText(counts, path)}${state === "" ? "" : `; ${state}`}${endsWell ? "" : ` → ${outcomeOf(call, again)}`}`,
    /** What no cell may show: a false envelope, a redirect that was followed, something done twice. */
    problems: [
      ...(isSuccess(answer) ? [] : [...detailsProblems(answer, cell), ...calledBehind(counts, cell)]),
      ...(isSuccess(again) && end !== wanted ? [`the repetition leaves "${end}", not "${wanted}"`] : []),
      ...(isSuccess(again) ? deadTokens(world, again) : []),
      ...oracle.problems()
    ]
  }
}

/** In a world of its own, where IAM has no limit and every pause its middle length. */
export const observe = async (cell: CellRequest) => {
  // The second instance registers the sender of tings, so that the first one knows nothing of it.
  const instances = cell.call === "ting" ? 2 : 1
  const world = await openWorld({ iamLimit: Number.POSITIVE_INFINITY, steady: true, instances })
  try {
    return await observeIn(world, cell)
  } finally {
    world.faults.heal()
    await world.close()
  }
}
