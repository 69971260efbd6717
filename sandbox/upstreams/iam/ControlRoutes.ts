/** HTTP control routes below `/_sandbox/`, for curl. They are the simulator's own and not part of IAM. */
import { controlRefusal, faultControls, optionalText, readControlBody } from "../ControlRoutes.ts"
import type { Reply, Seen, Simulator } from "../Simulator.ts"
import type { IamControls } from "./Controls.ts"
import { iamFaults } from "./Faults.ts"
import { production } from "./Model.ts"
import { sendWebhook } from "./WebhookSender.ts"

type Body = Readonly<Record<string, unknown>>

const mintSlt = (controls: IamControls, body: Body): Reply => {
  const slt = controls.mintSlt(optionalText(body, "plane") ?? production, {
    appId: "music",
    actor: optionalText(body, "actor") ?? "si:deejay"
  })
  return { status: 201, body: { slt } }
}

/** Sends one membership event to music: an update if the type says so, otherwise a removal. */
const sendEvent = async (controls: IamControls, body: Body): Promise<Reply> => {
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

const namedFaults = {
  internalError: iamFaults.internalError(),
  serviceUnavailable: iamFaults.serviceUnavailable(),
  rateLimited: iamFaults.rateLimited(5)
}

/** Answers a control request. A mistake in the request is a 400 with the reason. */
export const makeControlRoutes =
  (controls: IamControls, simulator: () => Simulator) =>
  async (request: Seen): Promise<Reply> => {
    const fault = faultControls(request, simulator(), namedFaults)
    if (fault !== undefined) return fault
    try {
      switch (`${request.method} ${request.path}`) {
        case "POST /_sandbox/slt":
          return mintSlt(controls, readControlBody(request))
        case "POST /_sandbox/events":
          return await sendEvent(controls, readControlBody(request))
        default:
          return controlRefusal("no such control")
      }
    } catch (error) {
      return controlRefusal(error instanceof Error ? error.message : String(error))
    }
  }
