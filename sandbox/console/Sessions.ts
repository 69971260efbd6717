/** The sessions that answers of the service carried, with the truth of the simulated IAM about them. */
import type { IamControls } from "../upstreams/Iam.ts"
import type { Session } from "./Protocol.ts"

/** What a later request needs of a session. */
export interface KnownSession {
  /** The id of its family at IAM. */
  readonly id: string
  readonly plane: string
  readonly accessToken: string
  readonly refreshToken: string
  readonly spentRefreshToken: string | null
}

const kept = 100

export class Sessions {
  private readonly controls: IamControls
  private readonly now: () => number
  private readonly known = new Map<string, KnownSession>()

  constructor(controls: IamControls, now: () => number) {
    this.controls = controls
    this.now = now
  }

  /** Keeps the pair of an answer. A replayed older pair changes nothing. */
  keepTokens(plane: string, pair: { readonly accessToken: string; readonly refreshToken: string }): void {
    const family = this.controls.familyOf(pair.refreshToken)
    const truth = this.controls.plane(plane).refreshTokens.get(pair.refreshToken)
    if (family === undefined || truth === undefined) return
    const before = this.known.get(family.id)
    if (before?.refreshToken === pair.refreshToken || (before !== undefined && truth.consumed)) return
    this.known.set(family.id, {
      id: family.id,
      plane,
      ...pair,
      spentRefreshToken: before?.refreshToken ?? null
    })
    const [oldest] = this.known.keys()
    if (this.known.size > kept && oldest !== undefined) this.known.delete(oldest)
  }

  find(id: string): KnownSession | undefined {
    return this.known.get(id)
  }

  /** The actor of a session. */
  actorOf({ accessToken }: KnownSession): string {
    return this.controls.familyOf(accessToken)?.actor ?? "an unknown actor"
  }

  /** Newest first. */
  list(): ReadonlyArray<Session> {
    return [...this.known.values()].flatMap((session) => this.view(session)).reverse()
  }

  private view(session: KnownSession): ReadonlyArray<Session> {
    const { accessTokens, memberships } = this.controls.plane(session.plane)
    const access = accessTokens.get(session.accessToken)
    if (access === undefined) return []
    const { family } = access
    return [
      {
        ...session,
        actor: family.actor,
        // Those of the login that the actor is still in.
        organizations: [...memberships.values()]
          .filter(
            ({ actor, org, status }) =>
              actor === family.actor && status === "active" && family.session.organizations.has(org)
          )
          .map(({ org }) => org)
          .sort(),
        status: this.statusOf(access),
        accessIssuedAt: access.issuedAt,
        accessExpiresAt: access.expiresAt,
        familyExpiresAt: family.expiresAt
      }
    ]
  }

  private statusOf({
    expiresAt,
    family,
    revoked
  }: {
    readonly expiresAt: number
    readonly family: { readonly status: "active" | "revoked" | "compromised"; readonly expiresAt: number }
    readonly revoked: boolean
  }): Session["status"] {
    if (family.status === "compromised") return "compromised"
    if (family.status === "revoked" || revoked || this.now() >= family.expiresAt) return "ended"
    return this.now() >= expiresAt ? "expired" : "active"
  }
}
