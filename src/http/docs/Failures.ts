/** Failures as rows of a table. */
import { type Html, html, none, prose } from "./Html.ts"
import { type Call, failuresOf, type Spec } from "./Spec.ts"

interface Envelope {
  readonly message: string
  readonly hint: string
  readonly retryable: boolean
}

/** Message, hint and retryability of a code, from its example. */
const envelopeOf = (spec: Spec, code: string): Envelope => {
  const value = spec.components.examples[code]?.value
  // The examples are generated from the table of failures and have this shape.
  const { error } = value as { readonly error: Envelope }
  return error
}

/** One failure as a row: status, code, retryability, message and hint. */
export const failureRow = (
  spec: Spec,
  status: string,
  code: string,
  heading: Html,
  more: Html = none
): Html => {
  const { message, hint, retryable } = envelopeOf(spec, code)
  return html`<tr><td class="status">${status}</td><th scope="row">${heading}</th>
<td>${retryable ? html`<strong>yes</strong>` : "no"}</td><td>${prose(message)}</td><td>${prose(hint)}${more}</td></tr>`
}

export const failureHead = html`<thead><tr><th scope="col">Status</th><th scope="col">Code</th><th scope="col">Retry</th><th scope="col">What happened</th><th scope="col">What to do</th></tr></thead>`

/** The calls that declare a code. */
export const callsWith = (spec: Spec, calls: ReadonlyArray<Call>, code: string): ReadonlyArray<Call> =>
  calls.filter((call) => failuresOf(spec, call).some((failure) => failure.code === code))
