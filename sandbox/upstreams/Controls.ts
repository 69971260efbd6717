/** The fault switches of a simulator over HTTP, so that a person can break an upstream of a running sandbox with curl. */
import type { Fault, FaultRule, Reply, Seen } from "./Simulator.ts"

export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The refusal of a control route. The contracts' own routes have their own envelopes. */
export const controlRefusal = (message: string): Reply => ({
  status: 400,
  body: { error: { code: "invalid_control", message } }
})

/** The JSON object in the body of a control call; an empty body counts as `{}`. `undefined` when it is anything else. */
export const controlBody = (request: Seen): Readonly<Record<string, unknown>> | undefined => {
  try {
    const value: unknown = request.body.length === 0 ? {} : JSON.parse(request.body.toString("utf8"))
    return isRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}

const readReply = (value: unknown): Reply | undefined => {
  if (!isRecord(value)) return undefined
  const { status, headers = {}, body } = value
  if (typeof status !== "number" || !Number.isInteger(status) || status < 200 || status > 599)
    return undefined
  if (!isRecord(headers)) return undefined
  const texts: Record<string, string> = {}
  for (const [name, text] of Object.entries(headers)) {
    if (typeof text !== "string") return undefined
    texts[name.toLowerCase()] = text
  }
  return { status, headers: texts, ...(body === undefined ? {} : { body }) }
}

const readFault = (value: unknown): Fault | undefined => {
  if (!isRecord(value)) return undefined
  switch (value.kind) {
    case "reply":
    case "reply-after": {
      const reply = readReply(value.reply)
      return reply === undefined ? undefined : { kind: value.kind, reply }
    }
    case "drop":
    case "drop-after":
    case "hang":
    case "hang-after":
      return { kind: value.kind }
    case "delay": {
      const { milliseconds } = value
      return typeof milliseconds === "number" && milliseconds >= 0
        ? { kind: "delay", milliseconds }
        : undefined
    }
    default:
      return undefined
  }
}

const readRule = (request: Seen): FaultRule | string => {
  const body = controlBody(request)
  if (body === undefined) return "the body must be a JSON object"
  const { method, path, times } = body
  if (method !== undefined && typeof method !== "string") return "method must be a string"
  if (path !== undefined && typeof path !== "string") return "path must be a string, compared exactly"
  const count = times === "always" ? Number.POSITIVE_INFINITY : (times ?? 1)
  if (typeof count !== "number" || !(count >= 1)) return 'times must be a number from 1, or "always"'
  const fault = readFault(body.fault)
  if (fault === undefined) return "fault must have a known kind, and the reply or milliseconds that it needs"
  return {
    ...(method === undefined ? {} : { method }),
    ...(path === undefined ? {} : { path }),
    times: count,
    fault
  }
}

/**
 * `POST /_sandbox/faults` with a fault rule (`path` a string, `times` a number or `"always"`), and `DELETE` to clear
 * them all; both answer 204. `undefined` for any other request.
 */
export const faultControls = (
  request: Seen,
  addFault: (rule: FaultRule) => void,
  clearFaults: () => void
): Reply | undefined => {
  if (request.path !== "/_sandbox/faults") return undefined
  if (request.method === "DELETE") {
    clearFaults()
    return { status: 204 }
  }
  if (request.method !== "POST") return undefined
  const rule = readRule(request)
  if (typeof rule === "string") return controlRefusal(rule)
  addFault(rule)
  return { status: 204 }
}
