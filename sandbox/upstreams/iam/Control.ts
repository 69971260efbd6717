/** The few controls that a person with curl needs, below `/_sandbox/`; they are the simulator's own, not IAM's. */
import type { Fault, FaultRule, Reply, Seen } from "../Simulator.ts"
import { faults as generalFaults } from "../Simulator.ts"
import type { Aggregate, IamEvent } from "./Events.ts"
import { iamFaults } from "./Faults.ts"
import { isRecord } from "./Grammar.ts"
import { production } from "./Model.ts"
import type { World } from "./World.ts"

type Body = Readonly<Record<string, unknown>>

const text = (body: Body, name: string): string | undefined => {
  const value = body[name]
  if (value !== undefined && typeof value !== "string") throw new Error(`${name} must be a string`)
  return value
}

const texts = (body: Body, name: string): ReadonlyArray<string> | undefined => {
  const value = body[name]
  if (value === undefined) return undefined
  if (!Array.isArray(value)) throw new Error(`${name} must be an array of strings`)
  return value.map((item) => {
    if (typeof item !== "string") throw new Error(`${name} must be an array of strings`)
    return item
  })
}

const readBody = (request: Seen): Body => {
  const value: unknown = request.body.length === 0 ? {} : JSON.parse(request.body.toString("utf8"))
  if (!isRecord(value)) throw new Error("the body must be a JSON object")
  return value
}

const mintSlt = (world: World, body: Body): Reply => {
  const orgs = texts(body, "orgs")
  const scopes = texts(body, "scopes")
  const slt = world.mintSlt(text(body, "plane") ?? production, {
    appId: text(body, "app_id") ?? "music",
    actor: text(body, "actor") ?? "si:deejay",
    ...(orgs === undefined ? {} : { orgs }),
    ...(scopes === undefined ? {} : { scopes })
  })
  return { status: 201, body: { slt } }
}

const aggregateOf = (value: unknown): Aggregate | undefined => {
  if (value === undefined) return undefined
  if (!isRecord(value)) throw new Error("aggregate must be an object")
  const { id, type, version } = value
  if (typeof id !== "string" || typeof type !== "string" || typeof version !== "number")
    throw new Error("aggregate needs type, id and version")
  return { type, id, version }
}

/** An event spelled out, or with `actor` and `org` the ready-made one of a member who leaves or changes. */
const eventOf = (world: World, plane: string, body: Body): IamEvent => {
  const eventType = text(body, "event_type")
  const actor = text(body, "actor")
  const org = text(body, "org")
  if (actor !== undefined && org !== undefined)
    return eventType?.includes(".updated.") === true
      ? world.events.membershipUpdated(plane, actor, org)
      : world.events.membershipRemoved(plane, actor, org, { named: body.named === true })
  if (eventType === undefined) throw new Error("event_type, or actor and org, is required")
  const { data } = body
  if (data !== undefined && !isRecord(data)) throw new Error("data must be an object")
  const organizationId = text(body, "organization_id")
  const eventId = text(body, "event_id")
  const aggregate = aggregateOf(body.aggregate)
  return {
    eventType,
    ...(data === undefined ? {} : { data }),
    ...(organizationId === undefined ? {} : { organizationId }),
    ...(eventId === undefined ? {} : { eventId }),
    ...(aggregate === undefined ? {} : { aggregate })
  }
}

const sendEvent = async (world: World, body: Body): Promise<Reply> => {
  const plane = text(body, "plane") ?? production
  const queued = world.emit(plane, {
    ...eventOf(world, plane, body),
    appId: text(body, "app_id") ?? "music"
  })
  await world.deliverDue()
  return {
    status: 200,
    body: {
      deliveries: queued.map(({ appId, attempts, event, status }) => ({
        app_id: appId,
        event_id: event.event_id,
        status,
        attempts
      }))
    }
  }
}

const named: Readonly<Record<string, () => Fault>> = {
  ...iamFaults,
  rateLimited: () => iamFaults.rateLimited(5),
  html: () => generalFaults.html(),
  redirect: () => generalFaults.redirect(),
  notJson: () => generalFaults.notJson(),
  drop: () => ({ kind: "drop" }),
  hang: () => ({ kind: "hang" })
}

const faultOf = (value: unknown): Fault => {
  if (typeof value === "string") {
    const fault = Object.hasOwn(named, value) ? named[value] : undefined
    if (fault === undefined)
      throw new Error(`fault must be an object or one of ${Object.keys(named).join(", ")}`)
    return fault()
  }
  if (!isRecord(value)) throw new Error("fault must be a name or an object")
  const { kind, milliseconds, reply } = value
  switch (kind) {
    case "drop":
    case "drop-after":
    case "hang":
    case "hang-after":
      return { kind }
    case "delay":
      if (typeof milliseconds !== "number") throw new Error("delay needs milliseconds")
      return { kind, milliseconds }
    case "reply":
    case "reply-after": {
      if (!isRecord(reply) || typeof reply.status !== "number") throw new Error("reply needs a status")
      const given = isRecord(reply.headers) ? reply.headers : {}
      const headers = Object.fromEntries(Object.entries(given).map(([name, line]) => [name, String(line)]))
      return { kind, reply: { status: reply.status, headers, body: reply.body } }
    }
    default:
      throw new Error("unknown kind of fault")
  }
}

const ruleOf = (body: Body): FaultRule => {
  const { times } = body
  if (times !== undefined && typeof times !== "number") throw new Error("times must be a number")
  const path = text(body, "path")
  const method = text(body, "method")
  return {
    fault: faultOf(body.fault),
    ...(path === undefined ? {} : { path }),
    ...(method === undefined ? {} : { method }),
    ...(times === undefined ? {} : { times })
  }
}

/** Answers a control request; a mistake in one is 400 with what is wrong. */
export const makeControl = (
  world: World,
  faults: { readonly add: (rule: FaultRule) => void; readonly clear: () => void }
) => {
  const answer = async (request: Seen): Promise<Reply> => {
    switch (`${request.method} ${request.path}`) {
      case "POST /_sandbox/slt":
        return mintSlt(world, readBody(request))
      case "POST /_sandbox/events":
        return await sendEvent(world, readBody(request))
      case "POST /_sandbox/faults":
        faults.add(ruleOf(readBody(request)))
        return { status: 204 }
      case "DELETE /_sandbox/faults":
        faults.clear()
        return { status: 204 }
      default:
        return { status: 404, body: { error: "no such control" } }
    }
  }
  return async (request: Seen): Promise<Reply> => {
    try {
      return await answer(request)
    } catch (error) {
      return { status: 400, body: { error: error instanceof Error ? error.message : String(error) } }
    }
  }
}
