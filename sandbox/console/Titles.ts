/** What an action is called in the list. */
import type { SimulatedUpstreams } from "../SimulatedUpstreams.ts"
import type { Journal } from "./Journal.ts"
import type { InjectedFaults } from "./InjectedFaults.ts"
import type { Action, Fault, FaultKind, Upstream } from "./Protocol.ts"
import type { Sessions } from "./Sessions.ts"

const upstreamNames: Readonly<Record<Upstream, string>> = {
  iam: "IAM",
  ting: "Ting",
  tables: "The table service",
  tracker: "The tracker"
}

const faultNames: Readonly<Record<FaultKind, string>> = {
  down: "is down",
  slow: "is slow",
  rateLimited: "answers 429",
  lost: "loses its answer"
}

const units = [
  { name: "day", milliseconds: 86_400_000 },
  { name: "hour", milliseconds: 3_600_000 },
  { name: "minute", milliseconds: 60_000 },
  { name: "second", milliseconds: 1_000 }
]

/** In the largest unit that divides it. */
const durationText = (milliseconds: number): string => {
  const unit = units.find((one) => milliseconds % one.milliseconds === 0)
  if (unit === undefined) return `${milliseconds} ms`
  const count = milliseconds / unit.milliseconds
  return `${count} ${unit.name}${count === 1 ? "" : "s"}`
}

const titleOfFault = ({ fault, route, upstream }: Pick<Fault, "fault" | "route" | "upstream">): string =>
  `${route ?? upstreamNames[upstream]} ${faultNames[fault]}`

export const makeTitles = (
  world: SimulatedUpstreams,
  parts: { readonly journal: Journal; readonly sessions: Sessions; readonly faults: InjectedFaults }
): ((action: Action) => string) => {
  const { faults, journal, sessions } = parts

  const actorOf = (id: string | null): string => {
    const session = id === null ? undefined : sessions.find(id)
    return session === undefined ? "a caller without a session" : sessions.actorOf(session)
  }

  /** A testing plane takes a public id in place of a token. */
  const actorOfSlt = (plane: string, slt: string): string => {
    const known = world.iam.controls.plane(plane).slts.get(slt)
    if (known !== undefined) return known.session.actor
    return /^(?:c|si):/.test(slt) ? slt : "an unknown actor"
  }

  const titleOfRepeat = (id: number): string => {
    const entry = journal.find(id)
    return entry?.action.kind === "repeat" ? entry.title : `Repeat: ${entry?.title ?? `action ${id}`}`
  }

  const titleOfRemoval = (id: number): string => {
    const fault = faults.list().find((one) => one.id === id)
    return fault === undefined ? "Remove a fault" : `Remove: ${titleOfFault(fault)}`
  }

  const aboutOf = ({ actor, org }: Extract<Action, { readonly kind: "webhook" }>): string => {
    const about = actor ?? org
    return about === null ? "" : ` about ${about}`
  }

  return (action) => {
    switch (action.kind) {
      case "mint":
        return `Get an SLT for ${action.actor}`
      case "login":
        return `Log in as ${actorOfSlt(action.plane, action.slt)}`
      case "me":
        return `Ask who ${actorOf(action.session)} is`
      case "refresh":
        return `Refresh the session of ${actorOf(action.session)}`
      case "replayRefresh":
        return `Replay the refresh of ${actorOf(action.session)}`
      case "reuseRefresh":
        return `Reuse a spent refresh token of ${actorOf(action.session)}`
      case "logout":
        return `Log out ${actorOf(action.session)}`
      case "ting":
        return `Send a ting to ${actorOf(action.session)}`
      case "report":
        return `Report a bug as ${actorOf(action.session)}`
      case "telemetry":
        return `Send telemetry to ${action.table}`
      case "webhook":
        return `${action.tamper ? "Tamper with" : "Deliver"} ${action.event}${aboutOf(action)}`
      case "repeat":
        return titleOfRepeat(action.action)
      case "addFault":
        return titleOfFault(action)
      case "removeFault":
        return titleOfRemoval(action.fault)
      case "advanceClock":
        return `Move the clock by ${durationText(action.milliseconds)}`
    }
  }
}
