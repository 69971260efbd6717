/** A service that always succeeds, as a `fetch`, for tests of the client alone. */
const answer = (value: unknown) =>
  new Response(JSON.stringify(value), { status: 200, headers: { "content-type": "application/json" } })

const actor = { type: "silicon", public_id: "si:deejay" }

export type Answers = Readonly<Record<string, () => Response | Promise<Response>>>

/** A failure of the service, as it is sent. */
export const failure = (status: number, code: string, headers: Readonly<Record<string, string>> = {}) =>
  new Response(JSON.stringify({ error: { code, message: "m", hint: "h", retryable: false } }), {
    status,
    headers: { "content-type": "application/json", ...headers }
  })

/**
 * `instead` replaces the answers of calls, by the last part of their path; it may be changed at any time. Tokens
 * are numbered from `first`.
 */
export const stubService = (instead: Answers = {}, first = 1) => {
  const calls: Array<string> = []
  const keys: Array<string | null> = []
  let generation = first - 1
  const session = () => {
    generation += 1
    return {
      access_token: `oat_${generation}`,
      refresh_token: `ort_${generation}`,
      token_type: "Bearer",
      expires_in: 1800,
      scope: "self.identity.read",
      actor,
      org_id: "acme",
      org_ids: ["acme"],
      testing_environment_id: null
    }
  }
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const path = new URL(String(input)).pathname
    const call = path.slice(path.lastIndexOf("/") + 1)
    calls.push(call)
    keys.push(new Headers(init?.headers).get("idempotency-key"))
    const given = instead[call]
    if (given !== undefined) return given()
    if (path.endsWith("/login")) return answer({ ...session(), ting: { subscribed: true } })
    if (path.endsWith("/refresh")) return answer(session())
    if (path.endsWith("/logout") || path.endsWith("/telemetry")) return new Response(null, { status: 204 })
    return answer({
      authenticated: true,
      actor,
      org_id: "acme",
      membership_id: "si:deejay[acme]",
      session_id: "1",
      scopes: [],
      ting_ready: true,
      testing_environment_id: null
    })
  }
  return { fetch, calls, keys }
}
