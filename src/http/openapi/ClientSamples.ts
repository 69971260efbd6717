/** Calls by the client library, made of the examples of the document. A test runs them. */
import { exampleOf } from "./Examples.ts"

type Body = Readonly<Record<string, unknown>>

/** A value as a JavaScript literal. A line of JSON begins with a name only where it is one: line ends within texts are escaped. */
const literal = (value: unknown): string =>
  JSON.stringify(value, null, 2).replaceAll(/^(\s*)"([A-Za-z_]\w*)":/gm, "$1$2:")

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
  "telemetry.accept": () => "telemetry.flush()"
}

const record = ({ events, table }: Body): string =>
  `telemetry.record(${literal(table)}, ${literal(Array.isArray(events) ? events[0] : undefined)})\n`

/** The `x-codeSamples` of an operation; none for a call that the client has no method for. `client` and `telemetry` are made as `info.description` says. */
export const codeSamples = (operationId: string) => {
  const expression = expressions[operationId]
  if (expression === undefined) return {}
  // The examples of bodies are objects; a call without a body ignores it.
  const body = (exampleOf(operationId)?.request ?? {}) as Body
  const source = [
    `${operationId === "telemetry.accept" ? record(body) : ""}const answer = await ${expression(body)}`,
    "console.log(answer.ok ? answer.value : answer.error.hint)"
  ].join("\n")
  return { "x-codeSamples": [{ lang: "javascript", label: "music-client", source }] }
}
