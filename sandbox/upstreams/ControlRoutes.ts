/** Shared parts of the HTTP control routes. `/_sandbox/faults` injects failures into a running sandbox with curl. */
import type { Fault, FaultRule, Reply, Seen, Simulator } from "./Simulator.ts"

type Body = Readonly<Record<string, unknown>>

export const isRecord = (value: unknown): value is Body =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The error of a control route. The contracts' own routes have their own envelopes. */
export const controlRefusal = (message: string): Reply => ({
  status: 400,
  body: { error: { code: "invalid_control", message } }
})

/** The JSON object in the body; `{}` when the body is empty. Throws for anything else. */
export const readControlBody = (request: Seen): Body => {
  const value: unknown = request.body.length === 0 ? {} : JSON.parse(request.body.toString("utf8"))
  if (!isRecord(value)) throw new Error("the body must be a JSON object")
  return value
}

export const optionalText = (body: Body, name: string): string | undefined => {
  const value = body[name]
  if (value !== undefined && typeof value !== "string") throw new Error(`${name} must be a string`)
  return value
}

const readReply = (value: unknown): Reply => {
  const { status, headers = {}, body } = isRecord(value) ? value : {}
  if (typeof status !== "number" || !Number.isInteger(status) || status < 200 || status > 599)
    throw new Error("reply needs a status from 200 to 599")
  if (!isRecord(headers)) throw new Error("headers must be an object")
  const texts: Record<string, string> = {}
  for (const [name, text] of Object.entries(headers)) {
    if (typeof text !== "string") throw new Error("headers must be strings")
    texts[name.toLowerCase()] = text
  }
  return { status, headers: texts, ...(body === undefined ? {} : { body }) }
}

const readFault = (value: unknown, named: Readonly<Record<string, Fault>>): Fault => {
  if (typeof value === "string") {
    const fault = Object.hasOwn(named, value) ? named[value] : undefined
    if (fault === undefined)
      throw new Error(`fault must be an object or one of ${Object.keys(named).join(", ")}`)
    return fault
  }
  const { kind, milliseconds, reply } = isRecord(value) ? value : {}
  switch (kind) {
    case "reply":
    case "reply-after":
      return { kind, reply: readReply(reply) }
    case "drop":
    case "drop-after":
    case "hang":
    case "hang-after":
      return { kind }
    case "delay":
      if (typeof milliseconds !== "number" || !(milliseconds >= 0))
        throw new Error("delay needs milliseconds")
      return { kind, milliseconds }
    default:
      throw new Error("fault must have a known kind")
  }
}

const readRule = (body: Body, named: Readonly<Record<string, Fault>>): FaultRule => {
  const method = optionalText(body, "method")
  const path = optionalText(body, "path")
  const times = body.times === "always" ? Number.POSITIVE_INFINITY : (body.times ?? 1)
  if (typeof times !== "number" || !(times >= 1))
    throw new Error('times must be a number from 1, or "always"')
  return {
    ...(method === undefined ? {} : { method }),
    ...(path === undefined ? {} : { path }),
    times,
    fault: readFault(body.fault, named)
  }
}

/**
 * `POST /_sandbox/faults` adds a fault rule (`path` an exact string, `times` a number or `"always"`, `fault` an object or
 * one of the given names). `DELETE` clears all rules. Both answer 204. `undefined` for any other request.
 */
export const faultControls = (
  request: Seen,
  simulator: Pick<Simulator, "fail" | "clearFaults">,
  named: Readonly<Record<string, Fault>> = {}
): Reply | undefined => {
  if (request.path !== "/_sandbox/faults") return undefined
  if (request.method === "DELETE") {
    simulator.clearFaults()
    return { status: 204 }
  }
  if (request.method !== "POST") return undefined
  try {
    simulator.fail(readRule(readControlBody(request), named))
    return { status: 204 }
  } catch (error) {
    return controlRefusal(error instanceof Error ? error.message : String(error))
  }
}
