/** What a reader of the document needs before its calls, as Markdown: `info.description`, and the text about webhooks. */
import { failureTable } from "../../schema/Failure.ts"
import { parameters } from "./Components.ts"

const failures = Object.entries(failureTable)
  .sort(([, left], [, right]) => left.status - right.status)
  .map(
    ([code, { hint, message, retryable, status }]) =>
      `- **\`${code}\`** (${status}${retryable ? ", retry" : ""}): ${message} ${hint}`
  )
  .join("\n")

const headers = Object.values(parameters)
  .map(({ description, name }) => `- \`${name}\`: ${description}`)
  .join("\n")

export const guide = `The backend of a command-line music companion: sessions, notifications, reports, telemetry and webhooks.

Requests with unknown fields are refused. Responses may gain fields, and a client ignores unknown ones. Every response also carries the headers \`Content-Security-Policy\`, \`Cross-Origin-Resource-Policy\`, \`Referrer-Policy\`, \`X-Content-Type-Options\` and \`X-Frame-Options\`. Programs read this document as [/openapi.json](/openapi.json).

# Install the client

\`music-client\` is a typed client for Node and browsers. It keeps the session, refreshes it, and retries. No public registry has it: \`npm ci && npm run pack:client\` in a clone of the service writes the package.

\`\`\`sh
npm install <clone>/dist/music-client-*.tgz
\`\`\`

The samples use \`client\` and \`telemetry\`:

\`\`\`js
import { createMusicClient } from "music-client"
import { createTelemetry } from "music-client/telemetry"

const client = createMusicClient({ baseUrl: "http://127.0.0.1:8787", source: "cli", telemetry: true })
const telemetry = createTelemetry(client)
\`\`\`

# Log in

1. Read the descriptor, \`GET /api/v1/iam\`. It names the application, the identity service and the scopes.
2. Get a short-lived token from the identity service. It works once and for two minutes.
3. Exchange it for a session with \`POST /api/v1/auth/login\`.
4. Send the access token as \`Authorization: Bearer oat_…\` and the organisation as \`X-Org-ID\`.
5. Refresh before \`expires_in\` seconds have passed, and store the new refresh token at once: the old one is consumed. The old access token lives on until its own end.

# Idempotency keys

Login, refresh, logout and reports need an \`Idempotency-Key\`: 16 to 255 visible ASCII characters that no other caller can choose, such as a random UUID or a digest of the credential. Without an answer, send the same request with the same key again: it has the same answer and no second effect. An exchange of tokens is replayed for 10 minutes. New content needs a new key; a used one is 409 \`idempotency_conflict\`. A ting carries its key in the body, and an event of telemetry its \`id\`.

A report is filed in the issue tracker after its answer, which has \`issue_url: null\`. Send the report again under its key to learn the address of its issue.

# Headers of every call

All are optional. Probes, documents and webhooks ignore most of them.

${headers}

# Planes

A plane is production, or one testing environment of the identity service. \`X-Testing-Environment-Key\` selects a testing environment by the application's testing secret in it. Send it with every call, from the login on. A request with this header never selects production, whatever its value. Nothing crosses from one plane to another.

# Organisations

A session reaches the organisations in its \`org_ids\`. Each call with a bearer names one of them in \`X-Org-ID\`. An organisation that the session does not reach is 403 \`forbidden\`, and the session lives on.

# Limits and 429

By default one address (a /64 of IPv6) has 1,200 requests a minute and one access token 600; reports and forged webhooks have lower limits. \`RateLimit\` has the quotas that remain. On 429 wait for the seconds of \`Retry-After\`, then send the same request again: earlier ones are refused, too. The identity service has a limit of its own for all callers together, so a login, a refresh or the first call of a token may be 429 \`rate_limited\` below these quotas. The notification service answers 429 \`temporarily_rate_limited\`. A 429 never ends a session.

# Errors

Every failure has one envelope: \`error.code\` for programs, \`error.message\` with the cause, \`error.hint\` with the next step, \`error.retryable\` for whether a retry can succeed. Retry only where it is true: after \`Retry-After\` seconds where the header is present, otherwise after a second or two and longer each time, with the same key and body. On \`unauthenticated\` refresh once; when the refresh itself answers it, or \`idempotency_response_expired\`, log in again. No other code ends a session. Keep the \`X-Request-Id\`: it identifies the request in the operator's log.

${failures}
`

export const webhookGuide = `Deliveries of the identity service, signed with the webhook secret of the application. The signature covers \`X-Silicon-IAM-Timestamp\`, a full stop and the exact bytes of the body. A delivery is verified before it is parsed, and a timestamp is at most 300 seconds away from now. A receiver in Node verifies it so, and a sender of tests signs with the same digest:

\`\`\`js
import { createHmac, timingSafeEqual } from "node:crypto"

/** \`headers\` by lower-case name, \`body\` as the bytes that arrived, \`secret\` of the version in X-Silicon-IAM-Key-Version, \`now\` in seconds. */
export const isGenuine = (headers, body, secret, now) => {
  const timestamp = headers["x-silicon-iam-timestamp"] ?? ""
  const digest = createHmac("sha256", secret).update(timestamp + ".").update(body).digest("hex")
  const expected = Buffer.from("v1=" + digest)
  const given = Buffer.from(headers["x-silicon-iam-signature"] ?? "")
  const isFresh = Math.abs(now - Number(timestamp)) <= 300
  return isFresh && given.length === expected.length && timingSafeEqual(given, expected)
}
\`\`\`
`
