/** Carries out what a person does, and keeps what came of it. */
import { randomUUID } from "node:crypto"
import * as Effect from "effect/Effect"
import { call, type Exchange as Answer, StepFailed } from "../HttpExchange.ts"
import type { Sandbox } from "../Run.ts"
import { makeServiceClient, type ServiceClient, type ServiceRequest } from "../ServiceClient.ts"
import { planesOf } from "../SimulatedUpstreams.ts"
import type { InjectedFaults } from "./InjectedFaults.ts"
import { type Journal, type Outgoing, recordOf } from "./Journal.ts"
import type { Action, ActionRecord, Fault, FaultKind, Session, Upstream } from "./Protocol.ts"
import { type Refused, refuse } from "./Refused.ts"
import { sessionsOf } from "./StateView.ts"
import { applyEvent, checkEvent, signEvent, tamperWith } from "./Webhooks.ts"

/** Carries out an action. Returns its record, once the service has answered. */
export type Perform = (action: Action) => Effect.Effect<ActionRecord, Refused>

/** A request, with the title and the plane of its action. */
type Prepared = Outgoing & { readonly title: string; readonly plane: string }

type Controlling = Extract<Action, { readonly kind: "addFault" | "removeFault" | "advanceClock" }>
type Sending = Exclude<Action, Controlling>
/** What a caller sends to the service, by a session or without one. */
type Calling = Exclude<Sending, { readonly kind: "mint" | "login" | "webhook" | "repeat" }>

/** More than the service's own deadline. */
const answerTimeout = "60 seconds"

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

const titleOfFault = ({ fault, route, upstream }: Pick<Fault, "fault" | "route" | "upstream">): string =>
  `${route ?? upstreamNames[upstream]} ${faultNames[fault]}`

const units = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1_000]
] as const

/** In the largest unit that divides it. */
const durationText = (milliseconds: number): string => {
  const [name, length] = units.find(([, one]) => milliseconds % one === 0) ?? ["millisecond", 1]
  const count = milliseconds / length
  return `${count} ${name}${count === 1 ? "" : "s"}`
}

/** Title and request of a call. Only a report and telemetry have no session. */
const toRequest = (
  action: Calling,
  client: ServiceClient,
  session: Session | undefined
): readonly [title: string, request: ServiceRequest] => {
  const { accessToken = "", actor = "a caller without a session", refreshToken = "" } = session ?? {}
  const spent = session?.spentRefreshToken ?? ""
  const caller = { accessToken, org: "org" in action ? action.org : "" }
  const anyone = session === undefined ? null : caller
  switch (action.kind) {
    case "me":
      return [`Ask who ${actor} is`, client.me(caller)]
    case "refresh":
      return [`Refresh the session of ${actor}`, client.refresh(refreshToken)]
    case "replayRefresh":
      return [`Replay the refresh of ${actor}`, client.refresh(spent)]
    case "reuseRefresh":
      return [`Reuse a spent refresh token of ${actor}`, client.reuse(spent)]
    case "logout":
      return [`Log out ${actor}`, client.logout(refreshToken)]
    case "ting":
      return [`Send a ting to ${actor}`, client.ting(caller, action)]
    case "report":
      return [`Report a bug as ${actor}`, client.report(anyone, action.message)]
    case "telemetry": {
      const event = { ...action, id: randomUUID() }
      return [`Send telemetry to ${action.table}`, client.telemetry(anyone, event)]
    }
  }
}

/** Makes the request of an action. What cannot be sent is refused. */
const makePrepare = (sandbox: Sandbox, journal: Journal) => {
  const { base, world } = sandbox
  const { controls } = world.iam
  const toService = { from: "console", to: "backend" } as const

  const clientIn = (plane: string) => {
    const known = planesOf(world).find(({ id }) => id === plane)
    return known === undefined
      ? refuse("The plane is not known", "choose a plane of the list")
      : Effect.succeed(makeServiceClient(base, known.key))
  }
  const sessionOf = (action: Calling) => {
    if (action.session === null) return Effect.succeed(undefined)
    const session = sessionsOf(sandbox).find(({ id }) => id === action.session)
    if (session === undefined) return refuse("The session is not known", "log in, and use that session")
    const needsSpent = action.kind === "replayRefresh" || action.kind === "reuseRefresh"
    return needsSpent && session.spentRefreshToken === null
      ? refuse("The session has no spent refresh token", "refresh it first")
      : Effect.succeed(session)
  }

  return (action: Sending): Effect.Effect<Prepared, Refused> =>
    Effect.gen(function* () {
      switch (action.kind) {
        case "mint": {
          const { actor, plane } = action
          const request = {
            method: "POST",
            url: `${world.iam.url}/_sandbox/slt`,
            headers: { "content-type": "application/json" },
            body: JSON.stringify({ plane, actor })
          }
          return { from: "console", to: "iam", plane, title: `Get an SLT for ${actor}`, request }
        }
        case "login": {
          const { plane, slt } = action
          const client = yield* clientIn(plane)
          // A testing plane takes a public id in place of a token.
          const named = /^(?:c|si):/.test(slt) ? slt : "an unknown actor"
          const actor = controls.plane(plane).slts.get(slt)?.session.actor ?? named
          return { ...toService, plane, title: `Log in as ${actor}`, request: client.login(slt) }
        }
        case "webhook": {
          const { plane, tamper } = action
          const event = yield* checkEvent(world, action)
          // An event becomes true at IAM before it is sent.
          if (!tamper) applyEvent(controls, event)
          const { body, headers, url } = signEvent(controls, event)
          const text = body.toString("utf8")
          const about = event.actor ?? event.org
          const title = `${tamper ? "Tamper with" : "Deliver"} ${action.event}${about === undefined ? "" : ` about ${about}`}`
          const request = { method: "POST", url, headers, body: tamper ? tamperWith(text) : text }
          return { from: "iam", to: "backend", plane, title, request }
        }
        case "repeat": {
          const { begin, sent = null } = journal.find(action.action) ?? {}
          if (begin === undefined || sent === null)
            return yield* refuse("The action sent no request, or is no longer kept", "repeat one of the list")
          const title = `Repeat: ${begin.title.replace(/^Repeat: /, "")}`
          return { ...sent, plane: begin.plane ?? "", title }
        }
        default: {
          const session = yield* sessionOf(action)
          const plane = session?.plane ?? ("plane" in action ? action.plane : "")
          const [title, request] = toRequest(action, yield* clientIn(plane), session)
          return { ...toService, plane, title, request }
        }
      }
    })
}

export const makeActions = (
  sandbox: Sandbox,
  { faults, journal }: { readonly journal: Journal; readonly faults: InjectedFaults }
): Perform => {
  const { clock } = sandbox
  const prepare = makePrepare(sandbox, journal)

  /** Returns the title. */
  const control = (action: Controlling): Effect.Effect<string, Refused> => {
    switch (action.kind) {
      case "addFault":
        return faults.add(action)
          ? Effect.succeed(titleOfFault(action))
          : refuse("The upstream has no such route", "choose one of the list, or every call")
      case "removeFault": {
        const fault = faults.remove(action.fault)
        return fault === undefined
          ? refuse("The fault has ended", "there is nothing to do")
          : Effect.succeed(`Remove: ${titleOfFault(fault)}`)
      }
      case "advanceClock":
        return Effect.sync(() => {
          clock.advance(action.milliseconds)
          return `Move the clock by ${durationText(action.milliseconds)}`
        })
    }
  }

  const send = (action: Sending) =>
    Effect.gen(function* () {
      const { plane, title, ...outgoing } = yield* prepare(action)
      const entry = journal.begin({ action, title, plane, startedAt: clock.now() })
      const headers = { ...outgoing.request.headers, traceparent: journal.traceOf(entry) }
      const request = { ...outgoing.request, headers }
      journal.send(entry, { ...outgoing, request })
      const answer: Answer | StepFailed = yield* call(request.url, request).pipe(
        Effect.timeoutFail({
          duration: answerTimeout,
          onTimeout: () => new StepFailed({ problem: `no answer within ${answerTimeout}` })
        }),
        Effect.merge
      )
      const ended =
        answer instanceof StepFailed
          ? { status: null, responseHeaders: {}, responseBody: answer.problem }
          : {
              status: answer.status,
              responseHeaders: Object.fromEntries(answer.headers),
              responseBody: answer.text
            }
      journal.end(entry, clock.now(), ended)
      return recordOf(entry)
    })

  return (action) => {
    switch (action.kind) {
      case "addFault":
      case "removeFault":
      case "advanceClock":
        return Effect.map(control(action), (title) => {
          const startedAt = clock.now()
          const entry = journal.begin({ action, title, plane: null, startedAt })
          journal.end(entry, startedAt, null)
          return recordOf(entry)
        })
      default:
        return send(action)
    }
  }
}
