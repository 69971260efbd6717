/** The introduction of the page: how to log in, and what to do when a call fails. */
import { failureHead, failureRow, callsWith } from "./Failures.ts"
import { type Html, html, none } from "./Html.ts"
import { preparations, sampleTabs, samplesOf } from "./Samples.ts"
import { type Call, failuresOf, type Spec } from "./Spec.ts"

const call = (id: string, words: string): Html => html`<a href="#${id}">${words}</a>`
const code = (name: string): Html => html`<a href="#error-${name}"><code>${name}</code></a>`
const shell = (text: string): Html => html`<pre tabindex="0"><code>${text}</code></pre>`

export const guide = (spec: Spec, calls: ReadonlyArray<Call>): Html => {
  const samples = (id: string): ReadonlyArray<Html> =>
    calls.filter(({ operationId }) => operationId === id).map((each) => sampleTabs(samplesOf(spec, each)))
  return html`<section id="start" data-find>
<h2>Log in, and make the first call <a class="anchor" href="#start" aria-label="Link to this section">#</a></h2>
<p>In the samples, <code>$MUSIC</code> or <code>music</code> is the address of this service, and <code>$TOKEN</code> or <code>token</code> an access token. The client library <code>music-client</code> keeps the session itself:</p>
${sampleTabs(preparations)}
<ol>
<li><p><strong>Read the login parameters.</strong> ${call("descriptors.iam", "The descriptor")} names the application, the identity service and the scopes.</p>
${samples("descriptors.iam")}</li>
<li><p><strong>Get a short-lived token from the identity service.</strong> A person opens its login page with <code>app_id</code> and gets the token as <code>slt</code>; a machine runs the identity service's own command. It works once and for two minutes.</p>
${shell("iam silicon-login --app-id music --grant-org acme --approve-scopes")}</li>
<li><p><strong>Exchange it for a session</strong> with ${call("auth.login", "login")}. Choose one <code>Idempotency-Key</code> for the token, any 16 to 255 visible characters that no other caller would choose.</p>
${samples("auth.login")}
<p>Without an answer, send the same call again: the same key replays the login for ten minutes; under another key the token is refused as used, and the session is lost. The client library derives the key from the token.</p></li>
<li><p><strong>Call with the access token</strong> and the organisation you act in; the session's <code>org_ids</code> lists them. ${call("auth.me", "Who am I")} shows that it works.</p>
${samples("auth.me")}</li>
<li><p><strong>Refresh before <code>expires_in</code> seconds have passed</strong> with ${call("auth.refresh", "refresh")}, and store the new refresh token at once: the old one is consumed. ${call("auth.logout", "Logout")} ends the session.</p></li>
</ol>
<p>To test without using production, send a testing environment's secret in <code>X-Testing-Environment-Key</code> with every call, from login on.</p>
</section>`
}

const advice = html`<ol>
<li>Read <code>error.code</code>. It is for programs; <code>error.hint</code> is for people. Keep the <code>X-Request-Id</code> of the answer: it identifies the request in the operator's log.</li>
<li><strong>Retry only when <code>error.retryable</code> is true.</strong> Wait for <code>Retry-After</code> seconds when present, otherwise a second or two and longer each time. Send <strong>the same</strong> <code>Idempotency-Key</code> and body: a retry has no second effect.</li>
<li>After no answer at all (a timeout, a lost connection), the call may have taken effect: retry it with the same key.</li>
<li>On ${code("unauthenticated")} refresh once; when the refresh itself answers it, log in again. Nothing else ends a session: not ${code("dependency_unavailable")}, not ${code("rate_limited")}.</li>
<li>On ${code("reconsent_required")} log in again and approve every scope: a refresh adds none.</li>
<li>On ${code("invalid_input")} read <code>error.details.fields</code>: each names a <code>path</code> and its <code>problem</code>.</li>
</ol>`

/** Codes that belong to no call, and their causes. */
const anywhere = html`<p>On any other path the service answers 404 with ${code("not_found")}, and to a method that a path does not support 405 with the code <code>method_not_allowed</code> and the supported methods in <code>Allow</code>.</p>`

export const failureGuide = (spec: Spec, calls: ReadonlyArray<Call>): Html => {
  const all = new Map<string, string>(
    calls.flatMap((each) => failuresOf(spec, each)).map(({ status, code }) => [code, status])
  )
  const sorted = [...all].sort(([, left], [, right]) => Number(left) - Number(right))
  return html`<section id="errors" data-find>
<h2>When a call fails <a class="anchor" href="#errors" aria-label="Link to this section">#</a></h2>
<p>Every failure has one form, whatever the call:</p>
${shell(JSON.stringify(spec.components.examples.invalid_input?.value ?? {}, null, 2))}
${advice}
<div class="wide"><table class="failures">
<caption>Every error code</caption>
${failureHead}
${sorted.map(
  ([name, status]) =>
    html`<tbody id="error-${name}">${failureRow(
      spec,
      status,
      name,
      html`<code>${name}</code>`,
      html`<p class="givers">From: ${callsWith(spec, calls, name).map(
        (giver, index) =>
          html`${index === 0 ? none : ", "}<a href="#${giver.operationId}">${giver.operationId}</a>`
      )}</p>`
    )}</tbody>`
)}
</table></div>
${anywhere}
</section>`
}
