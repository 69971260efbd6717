/** HTTP control routes below `/_sandbox/`, for curl. They are the simulator's own and not part of IAM. */
import { isRecord, type JsonObject, parseJson } from "../Json.ts"
import { controlRefusal, type Reply, type Seen, type Simulator } from "../Simulator.ts"
import type { IamControls } from "./Controls.ts"
import { iamFaults } from "./Faults.ts"
import { production } from "./Model.ts"
import { sendWebhook } from "./WebhookSender.ts"

/** The JSON object in the body; `{}` when the body is empty. */
const readBody = ({ body }: Seen): JsonObject => {
  const value = body.length === 0 ? {} : parseJson(body)
  if (!isRecord(value)) throw new Error("the body must be a JSON object")
  return value
}

const optionalText = (body: JsonObject, name: string): string | undefined => {
  const value = body[name]
  if (value !== undefined && typeof value !== "string") throw new Error(`${name} must be a string`)
  return value
}

const mintSlt = (controls: IamControls, body: JsonObject): Reply => {
  const slt = controls.mintSlt(optionalText(body, "plane") ?? production, {
    appId: "music",
    actor: optionalText(body, "actor") ?? "si:deejay"
  })
  return { status: 201, body: { slt } }
}

/** Sends one membership event to music: an update if the type says so, otherwise a removal. */
const sendEvent = async (controls: IamControls, body: JsonObject): Promise<Reply> => {
  const plane = optionalText(body, "plane") ?? production
  const actor = optionalText(body, "actor")
  const org = optionalText(body, "org")
  if (actor === undefined || org === undefined) throw new Error("actor and org are required")
  const event = optionalText(body, "event_type")?.includes(".updated.")
    ? controls.events.membershipUpdated(plane, actor, org)
    : controls.events.membershipRemoved(plane, actor, org, { named: body.named === true })
  const webhook = controls.buildWebhook(plane, { ...event, appId: "music" })
  return { status: 200, body: { event_type: event.eventType, ...(await sendWebhook(webhook)) } }
}

const namedFaults = new Map([
  ["internalError", iamFaults.internalError()],
  ["serviceUnavailable", iamFaults.serviceUnavailable()],
  ["rateLimited", iamFaults.rateLimited(5)]
])

/** Injects a named fault into a path, or into every path; `times` is 1 by default. */
const addFault = (simulator: Simulator, body: JsonObject): Reply => {
  const fault = namedFaults.get(optionalText(body, "fault") ?? "")
  if (fault === undefined) throw new Error(`fault must be one of ${[...namedFaults.keys()].join(", ")}`)
  const path = optionalText(body, "path")
  const { times = 1 } = body
  if (typeof times !== "number" || !(times >= 1)) throw new Error("times must be a number from 1")
  simulator.fail({ times, fault, ...(path === undefined ? {} : { path }) })
  return { status: 204 }
}

/** Answers a control request. A mistake in the request is a 400 with the reason. */
export const makeControlRoutes =
  (controls: IamControls, simulator: () => Simulator) =>
  async (request: Seen): Promise<Reply> => {
    try {
      switch (`${request.method} ${request.path}`) {
        case "POST /_sandbox/slt":
          return mintSlt(controls, readBody(request))
        case "POST /_sandbox/events":
          return await sendEvent(controls, readBody(request))
        case "POST /_sandbox/faults":
          return addFault(simulator(), readBody(request))
        default:
          return controlRefusal("no such control")
      }
    } catch (error) {
      return controlRefusal(error instanceof Error ? error.message : String(error))
    }
  }
