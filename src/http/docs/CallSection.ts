/** The section of one call: summary, request, response and failures. */

import { failureHead, failureRow } from "./Failures.ts"
import { boundsOf, exampleOf, fieldTable } from "./Fields.ts"
import { type Html, html, none, prose } from "./Html.ts"
import { sampleTabs, samplesOf } from "./Samples.ts"
import {
  type Call,
  failuresOf,
  isOptional,
  isSigned,
  type Parameter,
  parametersOf,
  type Response,
  resolve,
  type Spec
} from "./Spec.ts"

const formatJson = (value: unknown): string => JSON.stringify(value, null, 2)

const bearerRow = (spec: Spec, call: Call): ReadonlyArray<Html> =>
  isSigned(call)
    ? [
        html`<tr><th scope="row"><code>Authorization</code><small>${isOptional(call) ? "optional" : "required"}</small></th>
<td>${prose(spec.components.securitySchemes.bearer?.description ?? "")} <span class="example">such as <code>Bearer oat_…</code></span></td></tr>`
      ]
    : []

const parameterRow = ({ name, required, description, schema }: Parameter): Html =>
  html`<tr><th scope="row"><code>${name}</code><small>${required === true ? "required" : "optional"}</small></th>
<td>${prose(description ?? "")} ${schema.enum === undefined ? none : html`<span class="bound">${schema.enum.map(String).join(" or ")}</span>`}
${boundsOf(schema)} ${exampleOf(schema)}</td></tr>`

const headerTable = (spec: Spec, call: Call): Html => html`<div class="wide"><table>
<caption>Headers of the request</caption>
<thead><tr><th scope="col">Header</th><th scope="col">Meaning</th></tr></thead>
<tbody>${bearerRow(spec, call)}${parametersOf(spec, call).map(parameterRow)}</tbody>
</table></div>`

const isClosed = (spec: Spec, { requestBody }: Call): boolean => {
  const schema = requestBody?.content["application/json"].schema
  return schema !== undefined && resolve(schema, spec.components.schemas)?.additionalProperties === false
}

const requestPart = (spec: Spec, call: Call): Html => {
  const body = call.requestBody
  return html`<h4>Request</h4>
${sampleTabs(samplesOf(spec, call))}
${headerTable(spec, call)}
${
  body === undefined
    ? html`<p>No body.</p>`
    : html`<p>${prose(body.description ?? "")}${isClosed(spec, call) ? " Fields that are not listed are refused." : ""}</p>
${fieldTable(body.content["application/json"].schema, spec, "Body of the request", "required")}`
}`
}

const answerHeaders = (spec: Spec, headers: Response["headers"] = {}): Html =>
  html`<dl class="headers">${Object.entries(headers).map(([name, header]) => {
    const known = resolve(header, spec.components.headers)
    return html`<dt><code>${name}</code></dt><dd>${prose(known?.description ?? "")} ${known === undefined ? none : exampleOf(known.schema)}</dd>`
  })}</dl>`

const answerPart = (spec: Spec, call: Call): ReadonlyArray<Html> =>
  Object.entries(call.responses)
    .filter(([status]) => Number(status) < 400)
    .map(([status, response]) => {
      const json = response.content?.["application/json"]
      const example = json?.examples?.success
      return html`<h4>Answer <span class="status">${status}</span></h4>
<p>${prose(response.description)}.</p>
${example !== undefined && "value" in example ? html`<pre tabindex="0"><code>${formatJson(example.value)}</code></pre>` : html`<p>No body.</p>`}
${json === undefined ? none : fieldTable(json.schema, spec, "Body of the answer", "always")}
<details><summary>Headers of the answer</summary>${answerHeaders(spec, response.headers)}</details>`
    })

const failureHeaders = ({ responses }: Call): NonNullable<Response["headers"]> =>
  Object.assign(
    {},
    ...Object.entries(responses).flatMap(([status, { headers = {} }]) =>
      Number(status) < 400 ? [] : [headers]
    )
  )

const failurePart = (spec: Spec, call: Call): Html => html`<h4>When it fails</h4>
<div class="wide"><table class="failures">
<caption>Every error code that this call can return</caption>
${failureHead}
<tbody>${failuresOf(spec, call).map(({ status, code }) =>
  failureRow(spec, status, code, html`<a href="#error-${code}"><code>${code}</code></a>`)
)}</tbody>
</table></div>
<details><summary>Headers of a failure</summary>${answerHeaders(spec, failureHeaders(call))}</details>`

const accessOf = (call: Call): string => {
  if (
    call.parameters.some(
      (parameter) => "$ref" in parameter === false && parameter.name.endsWith("-Signature")
    )
  )
    return "Signed by the identity service."
  if (!isSigned(call)) return "No session needed."
  return isOptional(call)
    ? "A session is optional: `Authorization` together with `X-Org-ID`, or neither."
    : "Needs a session: `Authorization` together with `X-Org-ID`."
}

export const callSection = (
  spec: Spec,
  call: Call
): Html => html`<section id="${call.operationId}" class="call" data-find>
<h3><span class="method ${call.method.toLowerCase()}">${call.method}</span> <code class="path">${call.path}</code>
<a class="anchor" href="#${call.operationId}" aria-label="Link to ${call.summary}">#</a></h3>
<p class="summary">${call.summary}</p>
<p>${prose(call.description)}</p>
<p class="access">${prose(accessOf(call))}</p>
${requestPart(spec, call)}
${answerPart(spec, call)}
${failurePart(spec, call)}
</section>`
