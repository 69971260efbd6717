/** A service that always answers well, as a `fetch`, for tests of what the client does by itself. */
const answer = (value: unknown) =>
  new Response(JSON.stringify(value), { status: 200, headers: { "content-type": "application/json" } })

const actor = { type: "silicon", public_id: "si:deejay" }

export const stubService = () => {
  const calls: Array<string> = []
  let generation = 0
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
  const fetch: typeof globalThis.fetch = async (input) => {
    const path = new URL(String(input)).pathname
    calls.push(path.slice(path.lastIndexOf("/") + 1))
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
  return { fetch, calls }
}
