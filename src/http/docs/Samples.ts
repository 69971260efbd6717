/**
 * Each call as code: curl, `fetch` and the client library. `$MUSIC` or `music` is the address of the service, `$TOKEN` or `token` an access
 * token, `client` a client. A test runs every sample.
 */
import { clientSample } from "./ClientSamples.ts"
import { curlCommand, quote } from "./Curl.ts"
import { type Html, html, none } from "./Html.ts"
import { indent, literal } from "./Literal.ts"
import { type Call, exampleBody, isSigned, parametersOf, type Spec } from "./Spec.ts"

export type Language = "curl" | "fetch" | "client"

export interface Sample {
  readonly language: Language
  /** Makes the idempotency key. It is a block of its own, so that a copy of the call again does not make another key. */
  readonly key?: string | undefined
  readonly code: string | Html
}

const keyHeader = "Idempotency-Key"

/** Headers of the sample: the mandatory ones, and the organisation beside a token. Values are examples. */
const headersOf = (spec: Spec, call: Call) => [
  ...(exampleBody(call) === undefined ? [] : [{ name: "Content-Type", value: "application/json" }]),
  ...(isSigned(call) ? [{ name: "Authorization", value: "Bearer" }] : []),
  ...parametersOf(spec, call)
    .filter(({ name, required }) => required === true || (isSigned(call) && name === "X-Org-ID"))
    .map(({ name, schema }) => ({ name, value: String(schema.examples?.[0] ?? "…") }))
]

/** JSON on one line where that is short. */
const formatBody = (value: unknown): string => {
  const line = JSON.stringify(value)
  return line.length <= 80 ? line : JSON.stringify(value, null, 2)
}

const shellValues: Readonly<Record<string, string>> = {
  Authorization: "Bearer $TOKEN",
  [keyHeader]: "$KEY"
}

const curlSample = (spec: Spec, call: Call): string => {
  const headers = headersOf(spec, call)
  const body = exampleBody(call)
  return curlCommand({
    method: call.method,
    url: `"$MUSIC${call.path}"`,
    headers: headers.map(({ name, value }) => `"${name}: ${shellValues[name] ?? value}"`),
    body: body === undefined ? undefined : quote(formatBody(body))
  })
}

const scriptValues: Readonly<Record<string, string>> = {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: It is the template of the sample.
  Authorization: "`Bearer ${token}`",
  [keyHeader]: "key"
}

const fetchSample = (spec: Spec, call: Call): string => {
  const headers = headersOf(spec, call)
  const body = exampleBody(call)
  const lines = headers.map(
    ({ name, value }) =>
      `${/^\w+$/.test(name) ? name : JSON.stringify(name)}: ${scriptValues[name] ?? JSON.stringify(value)}`
  )
  const options = [
    ...(call.method === "GET" ? [] : [`method: "${call.method}"`]),
    ...(lines.length === 0 ? [] : [`headers: {\n${indent(lines.join(",\n"))}\n}`]),
    ...(body === undefined ? [] : [`body: JSON.stringify(${literal(body)})`])
  ]
  const given = options.length === 0 ? "" : `, {\n${indent(options.join(",\n"))}\n}`
  const hasAnswer = Object.entries(call.responses).some(
    ([status, { content }]) => Number(status) < 400 && content !== undefined
  )
  return [
    `const response = await fetch(\`\${music}${call.path}\`${given})`,
    `console.log(response.status, await response.${hasAnswer ? "json" : "text"}())`
  ].join("\n")
}

/** The samples of a call. The client library has no method for some calls. */
export const samplesOf = (spec: Spec, call: Call): ReadonlyArray<Sample> => {
  const client = clientSample(call)
  const hasKey = headersOf(spec, call).some(({ name }) => name === keyHeader)
  const keyOf = (code: string) => (hasKey ? code : undefined)
  return [
    { language: "curl", key: keyOf("KEY=$(uuidgen)"), code: curlSample(spec, call) },
    { language: "fetch", key: keyOf("const key = crypto.randomUUID()"), code: fetchSample(spec, call) },
    ...(client === undefined ? [] : [{ language: "client", code: client } as const])
  ]
}

const block = (code: string | Html): Html => html`<pre tabindex="0"><code>${code}</code></pre>`

const keyBlock = (code: string): Html =>
  html`<p>One key for each intended effect; its retries send the same key:</p>
${block(code)}
`

const titles: Readonly<Record<Language, string>> = {
  curl: "curl",
  fetch: "fetch",
  client: "music-client"
}

/** Samples one below the other; the script of the page makes tabs of them. */
export const sampleTabs = (samples: ReadonlyArray<Sample>): Html =>
  html`<div class="samples">${samples.map(
    ({ language, key, code }) => html`<div data-language="${language}">
<p class="language">${titles[language]}</p>
${key === undefined ? none : keyBlock(key)}${block(code)}
</div>`
  )}</div>`

const address = html`<span class="origin">http://127.0.0.1:8787</span>`

/** What the samples of a language need before them. */
export const preparations: ReadonlyArray<Sample> = [
  { language: "curl", code: html`export MUSIC=${address}` },
  { language: "fetch", code: html`const music = "${address}"` },
  {
    language: "client",
    code: html`import { createMusicClient } from "music-client"

const client = createMusicClient({ baseUrl: "${address}", source: "cli", telemetry: true })`
  }
]
