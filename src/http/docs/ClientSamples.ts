/** Calls by the client library. A test compiles them with the client's types and runs them. */
import { literal } from "./Literal.ts"
import { type Call, exampleBody } from "./Spec.ts"

type Body = Readonly<Record<string, unknown>>

/** The expression of a call, by operation id. The client refreshes by itself, and receives no webhooks. */
const expressions: Readonly<Record<string, (body: Body) => string>> = {
  "system.healthz": () => "client.healthz()",
  "system.readyz": () => "client.readyz()",
  "descriptors.iam": () => "client.iam()",
  "descriptors.version": () => "client.version()",
  "auth.login": ({ slt }) => `client.login(${literal(slt)})`,
  "auth.me": () => "client.me()",
  "auth.logout": () => "client.logout()",
  "tings.subscribe": () => "client.subscribe()",
  "tings.send": (body) => `client.ting(${literal(body)})`,
  "reports.submit": (body) => `client.report(${literal(body)})`,
  "telemetry.accept": () => "client.telemetry.flush()"
}

const eventOf = ({ events }: Body): unknown => (Array.isArray(events) ? events[0] : undefined)

/** Statements before the expression. */
const beginnings: Readonly<Record<string, (body: Body) => string>> = {
  "telemetry.accept": (body) => `client.telemetry.record(${literal(body.table)}, ${literal(eventOf(body))})\n`
}

/** The sample; undefined for a call that the client has no method for. */
export const clientSample = (call: Call): string | undefined => {
  const expression = expressions[call.operationId]
  if (expression === undefined) return undefined
  // The examples of bodies are objects; a call without a body ignores it.
  const body = (exampleBody(call) ?? {}) as Body
  return [
    `${beginnings[call.operationId]?.(body) ?? ""}const answer = await ${expression(body)}`,
    "console.log(answer.ok ? answer.value : answer.error.hint)"
  ].join("\n")
}
