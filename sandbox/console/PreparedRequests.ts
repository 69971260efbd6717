/** The request that an action sends. */
import * as Effect from "effect/Effect"
import type { Sandbox } from "../Run.ts"
import { production } from "../upstreams/Iam.ts"
import { parseJson } from "../upstreams/Contract.ts"
import type { Journal } from "./Journal.ts"
import type { Outgoing } from "./Outgoing.ts"
import { planesOf } from "./Planes.ts"
import type { Action } from "./Protocol.ts"
import { Refused, refuse } from "./Refused.ts"
import * as Requests from "./ServiceRequests.ts"
import type { KnownSession, Sessions } from "./Sessions.ts"
import { checkMint } from "./SltMinting.ts"
import { applyEvent, checkEvent, restoringEvent, signEvent, tamperWith } from "./WebhookEvents.ts"

/** Actions that send a request. */
export type Sending = Exclude<Action, { readonly kind: "addFault" | "removeFault" | "advanceClock" }>

type Order<Kind extends Sending["kind"]> = Extract<Sending, { readonly kind: Kind }>

type Prepared = Effect.Effect<Outgoing, Refused>

const parseData = (text: string): Effect.Effect<unknown, Refused> => {
  const value = parseJson(Buffer.from(text))
  if (value === undefined) return refuse("The data is not JSON", 'write JSON text, such as {"hello":"world"}')
  // Deeper than its call stack JavaScript reads JSON, and cannot write it.
  return Effect.try({
    try: () => JSON.stringify(value),
    catch: () => new Refused({ message: "The data nests too deep", hint: "use fewer levels" })
  }).pipe(Effect.as(value))
}

/** Prepares the request of an action, or refuses what cannot be sent. An event becomes true at IAM before it is sent. */
export const makeOutgoing = (
  { base, world }: Sandbox,
  parts: { readonly journal: Journal; readonly sessions: Sessions }
): ((action: Sending) => Prepared) => {
  const { journal, sessions } = parts

  const serviceIn = (id: string): Effect.Effect<Requests.Service, Refused> => {
    const plane = planesOf(world).find((known) => known.id === id)
    return plane === undefined
      ? refuse("The plane is not known", "choose a plane of the list")
      : Effect.succeed({ base, plane: id, testingKey: plane.key })
  }

  const sessionBy = (id: string): Effect.Effect<KnownSession, Refused> => {
    const session = sessions.find(id)
    return session === undefined
      ? refuse("The session is not known", "log in, and use that session")
      : Effect.succeed(session)
  }

  const inSession = (
    id: string,
    make: (service: Requests.Service, session: KnownSession) => Outgoing
  ): Prepared =>
    Effect.gen(function* () {
      const session = yield* sessionBy(id)
      return make(yield* serviceIn(session.plane), session)
    })

  const inOrganization = (
    id: string,
    org: string,
    make: (service: Requests.Service, session: KnownSession) => Outgoing
  ): Prepared =>
    Effect.flatMap(sessionBy(id), (session) => {
      const actor = sessions.actorOf(session)
      return org === ""
        ? refuse(
            `${actor} is in no organisation that this session reaches`,
            `under Do and Webhook, send ${restoringEvent(actor)} for ${actor}, and log in again`
          )
        : inSession(id, make)
    })

  const inOptionalSession = (
    { org, plane = production, session }: Order<"report" | "telemetry">,
    make: (service: Requests.Service, session: KnownSession | null) => Outgoing
  ): Prepared => {
    if (session === null) return Effect.map(serviceIn(plane), (service) => make(service, null))
    return org === null
      ? refuse("A session needs an organisation", "choose one of its organisations")
      : inOrganization(session, org, make)
  }

  const withSpentToken = (
    id: string,
    make: (service: Requests.Service, spent: string) => Outgoing
  ): Prepared =>
    Effect.gen(function* () {
      const { plane, spentRefreshToken } = yield* sessionBy(id)
      if (spentRefreshToken === null)
        return yield* refuse("The session has no spent refresh token", "refresh it first")
      return make(yield* serviceIn(plane), spentRefreshToken)
    })

  const mint = ({ actor, plane }: Order<"mint">): Prepared =>
    Effect.as(checkMint(world, { actor, plane }), {
      from: "console",
      to: "iam",
      plane,
      method: "POST",
      url: `${world.iam.url}/_sandbox/slt`,
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ plane, actor }),
      makes: []
    })

  const webhook = (order: Order<"webhook">): Prepared =>
    Effect.map(checkEvent(world, order), (possible) => {
      if (!order.tamper) applyEvent(world.iam.controls, possible)
      const { body, headers, url } = signEvent(world.iam.controls, possible)
      const text = body.toString("utf8")
      return {
        from: "iam",
        to: "backend",
        plane: order.plane,
        method: "POST",
        url,
        headers,
        body: order.tamper ? tamperWith(text) : text,
        makes: []
      }
    })

  const repeat = ({ action }: Order<"repeat">): Prepared => {
    const outgoing = journal.find(action)?.outgoing ?? null
    return outgoing === null
      ? refuse("The action sent no request, or is no longer kept", "repeat an action of the list")
      : Effect.succeed(outgoing)
  }

  return (action) => {
    switch (action.kind) {
      case "mint":
        return mint(action)
      case "login":
        return Effect.map(serviceIn(action.plane), (service) => Requests.loginRequest(service, action.slt))
      case "me":
        return inOrganization(action.session, action.org, (service, session) =>
          Requests.meRequest(service, session, action.org)
        )
      case "refresh":
        return inSession(action.session, (service, session) =>
          Requests.refreshRequest(service, session.refreshToken)
        )
      case "replayRefresh":
        return withSpentToken(action.session, Requests.refreshRequest)
      case "reuseRefresh":
        return withSpentToken(action.session, Requests.reuseRequest)
      case "logout":
        return inSession(action.session, Requests.logoutRequest)
      case "ting":
        return Effect.flatMap(parseData(action.data), (data) =>
          inOrganization(action.session, action.org, (service, session) =>
            Requests.tingRequest(service, session, { ...action, data })
          )
        )
      case "report":
        return inOptionalSession(action, (service, session) =>
          Requests.reportRequest(service, session, action)
        )
      case "telemetry":
        return Effect.flatMap(parseData(action.data), (data) =>
          inOptionalSession(action, (service, session) =>
            Requests.telemetryRequest(service, session, { ...action, data })
          )
        )
      case "webhook":
        return webhook(action)
      case "repeat":
        return repeat(action)
    }
  }
}
