/** What requests did at Ting and IAM, read from the simulators' state and from their journals. */
import { tingDigest } from "./Content.ts"
import type { World } from "./World.ts"

export interface AtUpstreams {
  /** Digests of the accepted tings by plane and key, one for each. */
  readonly tings: ReadonlyMap<string, ReadonlyArray<string>>
  /** Planes and public ids of the registered recipients. */
  readonly registered: ReadonlySet<string>
  /** SLTs and refresh tokens that IAM exchanged. */
  readonly spent: ReadonlySet<string>
  /** Tokens that IAM was asked to revoke, and did. */
  readonly revoked: ReadonlySet<string>
}

export const readUpstreams = ({ planes, upstreams: { iam, ting } }: World): AtUpstreams => {
  const tings = new Map<string, Array<string>>()
  const registered = new Set<string>()
  for (const [name, plane] of Object.entries(planes)) {
    for (const accepted of ting.accepted(plane)) {
      const key = `${name} ${accepted.key}`
      tings.set(key, [...(tings.get(key) ?? []), tingDigest({ ...accepted }, accepted.for)])
    }
    for (const grant of ting.grants(plane)) registered.add(`${name} ${grant.for}`)
  }
  const spent = new Set<string>()
  const revoked = new Set<string>()
  for (const { body, method, path, status = 0 } of iam.seen) {
    if (method !== "POST" || status >= 300) continue
    if (path !== "/api/v1/app-auth/tokens" && path !== "/api/v1/oauth/revoke") continue
    const form = new URLSearchParams(body.toString())
    const token = form.get("slt") ?? form.get("refresh_token") ?? form.get("token")
    if (token !== null) (path === "/api/v1/oauth/revoke" ? revoked : spent).add(token)
  }
  return { tings, registered, spent, revoked }
}
