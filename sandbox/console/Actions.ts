/** Carries out what a person does, and keeps what came of it. */
import { randomUUID } from "node:crypto"
import * as Effect from "effect/Effect"
import { call, type Exchange as Answer, StepFailed } from "../HttpExchange.ts"
import type { Sandbox } from "../Run.ts"
import { makeServiceClient, type ServiceClient, type ServiceRequest } from "../ServiceClient.ts"
import type { InjectedFaults } from "./InjectedFaults.ts"
import { type Journal, type Outgoing, recordOf } from "./Journal.ts"
import type { Action, ActionRecord, Fault, FaultKind, Session, Upstream } from "./Protocol.ts"
import { Refused, refuse } from "./Refused.ts"
import { planesOf } from "./Planes.ts"
import { sessionsOf } from "./StateView.ts"
import { applyEvent, checkEvent, signEvent, tamperWith } from "./Webhooks.ts"

/** Carries out an action. Returns its record, once the service has answered. */
export type Perform = (action: Action) => Effect.Effect<ActionRecord, Refused>

type Controlling = Extract<Action, { readonly kind: "addFault" | "removeFault" | "advanceClock" }>
type Sending = Exclude<Action, Controlling>
type Order<Kind extends Action["kind"]> = Extract<Action, { readonly kind: Kind }>

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

/** The request of each action. What cannot be sent is refused. */
const makeRequests = ({ base, hidden, clock, world }: Sandbox, journal: Journal) => {
  const { controls } = world.iam

  const inPlane = (
    id: string,
    title: string,
    make: (client: ServiceClient) => ServiceRequest
  ): Effect.Effect<Outgoing, Refused> => {
    const plane = planesOf(world).find((known) => known.id === id)
    return plane === undefined
      ? refuse("The plane is not known", "choose a plane of the list")
      : Effect.succeed({
          from: "console",
          to: "backend",
          plane: id,
          title,
          request: make(makeServiceClient(base, plane.key))
        })
  }

  const inSession = (
    id: string,
    titleOf: (actor: string) => string,
    make: (client: ServiceClient, session: Session) => ServiceRequest
  ): Effect.Effect<Outgoing, Refused> => {
    const session = sessionsOf(world, clock.now(), hidden).find((known) => known.id === id)
    return session === undefined
      ? refuse("The session is not known", "log in, and use that session")
      : inPlane(session.plane, titleOf(session.actor), (client) => make(client, session))
  }

  const withSpentToken = (
    id: string,
    titleOf: (actor: string) => string,
    make: (client: ServiceClient, spent: string) => ServiceRequest
  ) =>
    Effect.filterOrFail(
      inSession(id, titleOf, (client, { spentRefreshToken }) => make(client, spentRefreshToken ?? "")),
      () =>
        sessionsOf(world, clock.now(), hidden).some((one) => one.id === id && one.spentRefreshToken !== null),
      () => new Refused({ message: "The session has no spent refresh token", hint: "refresh it first" })
    )

  const callerIn = ({ accessToken }: Session, org: string) => ({ accessToken, org })

  const withOptionalSession = (
    { org, plane, session }: Order<"report" | "telemetry">,
    titleOf: (actor: string) => string,
    make: (client: ServiceClient, caller: ReturnType<typeof callerIn> | null) => ServiceRequest
  ) =>
    session === null
      ? inPlane(plane, titleOf("a caller without a session"), (client) => make(client, null))
      : inSession(session, titleOf, (client, known) => make(client, callerIn(known, org)))

  const requests: {
    readonly [Kind in Sending["kind"]]: (action: Order<Kind>) => Effect.Effect<Outgoing, Refused>
  } = {
    mint: ({ actor, plane }) =>
      Effect.succeed({
        from: "console",
        to: "iam",
        plane,
        title: `Get an SLT for ${actor}`,
        request: {
          method: "POST",
          url: `${world.iam.url}/_sandbox/slt`,
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ plane, actor })
        }
      }),
    login: ({ plane, slt }) => {
      // A testing plane takes a public id in place of a token.
      const actor = /^(?:c|si):/.test(slt) ? slt : "an unknown actor"
      const minted = planesOf(world).flatMap(({ id }) => controls.plane(id).slts.get(slt) ?? [])
      const title = `Log in as ${minted[0]?.session.actor ?? actor}`
      return inPlane(plane, title, (client) => client.login(slt))
    },
    me: ({ org, session }) =>
      inSession(
        session,
        (actor) => `Ask who ${actor} is`,
        (client, known) => client.me(callerIn(known, org))
      ),
    refresh: ({ session }) =>
      inSession(
        session,
        (actor) => `Refresh the session of ${actor}`,
        (client, { refreshToken }) => client.refresh(refreshToken)
      ),
    replayRefresh: ({ session }) =>
      withSpentToken(
        session,
        (actor) => `Replay the refresh of ${actor}`,
        (client, spent) => client.refresh(spent)
      ),
    reuseRefresh: ({ session }) =>
      withSpentToken(
        session,
        (actor) => `Reuse a spent refresh token of ${actor}`,
        (client, spent) => client.reuse(spent)
      ),
    logout: ({ session }) =>
      inSession(
        session,
        (actor) => `Log out ${actor}`,
        (client, { refreshToken }) => client.logout(refreshToken)
      ),
    ting: ({ org, session, ...ting }) =>
      inSession(
        session,
        (actor) => `Send a ting to ${actor}`,
        (client, known) => client.ting(callerIn(known, org), ting)
      ),
    report: (action) =>
      withOptionalSession(
        action,
        (actor) => `Report a bug as ${actor}`,
        (client, caller) => client.report(caller, action.message)
      ),
    telemetry: (action) =>
      withOptionalSession(
        action,
        () => `Send telemetry to ${action.table}`,
        (client, caller) => client.telemetry(caller, { ...action, id: randomUUID() })
      ),
    webhook: (order) =>
      Effect.map(checkEvent(world, order), (event) => {
        // An event becomes true at IAM before it is sent.
        if (!order.tamper) applyEvent(controls, event)
        const { body, headers, url } = signEvent(controls, event)
        const text = body.toString("utf8")
        const about = event.actor ?? event.org
        return {
          from: "iam",
          to: "backend",
          plane: order.plane,
          title: `${order.tamper ? "Tamper with" : "Deliver"} ${order.event}${about === undefined ? "" : ` about ${about}`}`,
          request: { method: "POST", url, headers, body: order.tamper ? tamperWith(text) : text }
        }
      }),
    repeat: ({ action }) => {
      const outgoing = journal.find(action)?.begin.outgoing ?? null
      return outgoing === null
        ? refuse("The action sent no request, or is no longer kept", "repeat an action of the list")
        : Effect.succeed({ ...outgoing, title: `Repeat: ${outgoing.title.replace(/^Repeat: /, "")}` })
    }
  }
  // The table has an entry of the same kind for each action.
  return (action: Sending) => requests[action.kind](action as never)
}

export const makeActions = (
  sandbox: Sandbox,
  { faults, journal }: { readonly journal: Journal; readonly faults: InjectedFaults }
): Perform => {
  const { clock } = sandbox
  const prepare = makeRequests(sandbox, journal)

  /** Returns the title. */
  const control = (action: Controlling): Effect.Effect<string, Refused> => {
    switch (action.kind) {
      case "addFault":
        return faults.add(action)
          ? Effect.succeed(titleOfFault(action))
          : refuse("The upstream has no such route", "choose one of the list, or every call")
      case "removeFault": {
        const fault = faults.list().find(({ id }) => id === action.fault)
        return fault !== undefined && faults.remove(action.fault)
          ? Effect.succeed(`Remove: ${titleOfFault(fault)}`)
          : refuse("The fault has ended", "there is nothing to do")
      }
      case "advanceClock":
        return Effect.sync(() => {
          clock.advance(action.milliseconds)
          return `Move the clock by ${durationText(action.milliseconds)}`
        })
    }
  }

  const send = (action: Sending, outgoing: Outgoing): Effect.Effect<ActionRecord> =>
    Effect.gen(function* () {
      const { from, request, to } = outgoing
      const entry = journal.begin({ ...outgoing, action, outgoing, startedAt: clock.now() })
      const headers = { ...request.headers, traceparent: journal.traceOf(entry) }
      journal.send(entry, { from, to, ...request, headers })
      const { url, ...rest } = request
      const answer: Answer | StepFailed = yield* call(url, { ...rest, headers }).pipe(
        Effect.timeoutFail({
          duration: answerTimeout,
          onTimeout: () => new StepFailed({ problem: `no answer within ${answerTimeout}` })
        }),
        Effect.merge
      )
      journal.end(
        entry,
        clock.now(),
        answer instanceof StepFailed
          ? { status: null, headers: {}, body: answer.problem }
          : { status: answer.status, headers: Object.fromEntries(answer.headers), body: answer.text }
      )
      return recordOf(entry)
    })

  return (action) => {
    switch (action.kind) {
      case "addFault":
      case "removeFault":
      case "advanceClock":
        return Effect.map(control(action), (title) => {
          const startedAt = clock.now()
          const entry = journal.begin({ action, title, plane: null, outgoing: null, startedAt })
          journal.end(entry, startedAt, null)
          return recordOf(entry)
        })
      default:
        return Effect.flatMap(prepare(action), (outgoing) => send(action, outgoing))
    }
  }
}
