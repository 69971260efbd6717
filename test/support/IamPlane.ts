/** One plane of the simulated identity service: actors, tokens and proofs under the rules of identity-service.md 5 to 10. */
import { createHash } from "node:crypto"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { Actor } from "../../src/schema/Identity.ts"
import type { Introspection, Membership, TingEndpoint, TokenGrant } from "../../src/services/Iam.ts"
import { Refused } from "../../src/services/UpstreamFailure.ts"

/** Seconds. */
export const lifetimes = { slt: 120, access: 1800, family: 900 * 86_400, proof: 60 } as const

interface MembershipState {
  version: number
  active: boolean
}

interface ActorState {
  readonly actor: Actor
  active: boolean
  readonly memberships: Map<string, MembershipState>
}

interface Family {
  readonly publicId: string
  readonly sessionId: string
  readonly organisations: ReadonlyArray<string>
  readonly scopes: ReadonlyArray<string>
  readonly endsAt: number
  revoked: boolean
}

interface Access {
  readonly family: Family
  readonly scopes: ReadonlyArray<string>
  readonly expiresAt: number
  revoked: boolean
}

interface IssuedProof {
  readonly endpoint: TingEndpoint
  readonly path: string
  readonly bodyDigest: string
  readonly organisation: string
  readonly organisationUuid: string
  readonly publicId: string
  readonly expiresAt: number
  consumed: boolean
}

export interface Login {
  readonly actor: string
  /** Default: all organisations of the actor. */
  readonly organisations?: ReadonlyArray<string>
  /** Default: all approved scopes. */
  readonly scopes?: ReadonlyArray<string>
}

export const endpointPaths = {
  "subscriptions.register": "/v1/subscriptions",
  "tings.send": "/v1/tings"
} as const satisfies Record<TingEndpoint, string>

export const digest = (data: string | Uint8Array): string => createHash("sha256").update(data).digest("hex")

export const refused = (status: number, code: string): Refused =>
  new Refused({ dependency: "iam", status, code, requestId: "iam-request" })

const seconds = (millis: number) => Math.floor(millis / 1000)
const ascending = (values: Iterable<string>): ReadonlyArray<string> => [...values].sort()

export class IamPlane {
  readonly approved: Set<string>
  /** Names the actor in an introspection even without `self.identity.read`, as the contract says it always does. */
  disclosesSubject = true
  readonly #name: string
  readonly #actors = new Map<string, ActorState>()
  readonly #slts = new Map<string, Required<Login> & { readonly endsAt: number; spent: boolean }>()
  readonly #access = new Map<string, Access>()
  readonly #refresh = new Map<string, { readonly family: Family; consumed: boolean }>()
  readonly #proofs = new Map<string, IssuedProof>()
  #issued = 0

  constructor(name: string, approved: ReadonlyArray<string>) {
    this.#name = name
    this.approved = new Set(approved)
  }

  #token(prefix: string): string {
    this.#issued += 1
    const random = createHash("sha256").update(`${this.#name} ${prefix} ${this.#issued}`)
    return `${prefix}_${random.digest("base64url")}`
  }

  #uuid(noun: string): string {
    const hex = digest(`${this.#name} ${noun}`)
    return [
      hex.slice(0, 8),
      hex.slice(8, 12),
      `7${hex.slice(13, 16)}`,
      `8${hex.slice(17, 20)}`,
      hex.slice(20, 32)
    ].join("-")
  }

  organisationUuid(handle: string): string {
    return this.#uuid(`organisation ${handle}`)
  }

  addActor(publicId: string, organisations: ReadonlyArray<string>): void {
    this.#actors.set(publicId, {
      actor: { type: publicId.startsWith("si:") ? "silicon" : "carbon", public_id: publicId },
      active: true,
      memberships: new Map(organisations.map((handle) => [handle, { version: 1, active: true }]))
    })
  }

  setMember(publicId: string, handle: string, active: boolean): void {
    const memberships = this.#actors.get(publicId)?.memberships
    memberships?.set(handle, { version: (memberships.get(handle)?.version ?? 0) + 1, active })
  }

  #organisationsOf(publicId: string): ReadonlyArray<string> {
    const memberships = this.#actors.get(publicId)?.memberships ?? new Map<string, MembershipState>()
    return ascending([...memberships].filter(([, { active }]) => active).map(([handle]) => handle))
  }

  mintSlt(login: Login, now: number): string {
    const slt = this.#token("oac")
    this.#slts.set(slt, {
      actor: login.actor,
      organisations: login.organisations ?? this.#organisationsOf(login.actor),
      scopes: login.scopes ?? ascending(this.approved),
      endsAt: now + lifetimes.slt * 1000,
      spent: false
    })
    return slt
  }

  isSpent(slt: string): boolean {
    return this.#slts.get(slt)?.spent ?? false
  }

  #grant(family: Family, scopes: ReadonlyArray<string>, now: number): TokenGrant {
    const accessToken = this.#token("oat")
    const refreshToken = this.#token("ort")
    const issuedAt = seconds(now)
    this.#access.set(accessToken, {
      family,
      scopes,
      expiresAt: issuedAt + lifetimes.access,
      revoked: false
    })
    this.#refresh.set(refreshToken, { family, consumed: false })
    const actor = this.#actors.get(family.publicId)?.actor
    return {
      accessToken: Redacted.make(accessToken),
      refreshToken: Redacted.make(refreshToken),
      expiresInSeconds: lifetimes.access,
      scopes,
      actor: scopes.includes("self.identity.read") ? Option.fromNullable(actor) : Option.none(),
      organisation: Option.none(),
      replayed: false
    }
  }

  #newFamily(login: Required<Login>, now: number): TokenGrant {
    const family: Family = {
      publicId: login.actor,
      sessionId: this.#uuid(`session ${this.#issued}`),
      organisations: login.organisations,
      scopes: login.scopes,
      endsAt: now + lifetimes.family * 1000,
      revoked: false
    }
    return this.#grant(family, ascending(login.scopes), now)
  }

  exchange(slt: string, testing: boolean, now: number): Either.Either<TokenGrant, Refused> {
    const found = this.#slts.get(slt)
    if (found === undefined && testing && this.#actors.get(slt)?.active === true) {
      const all = { actor: slt, organisations: this.#organisationsOf(slt), scopes: ascending(this.approved) }
      return Either.right(this.#newFamily(all, now))
    }
    if (found === undefined || found.spent || found.endsAt <= now) {
      return Either.left(refused(400, "invalid_grant"))
    }
    found.spent = true
    return Either.right(this.#newFamily(found, now))
  }

  refresh(token: string, now: number): Either.Either<TokenGrant, Refused> {
    const found = this.#refresh.get(token)
    if (found === undefined || found.family.revoked || found.family.endsAt <= now) {
      return Either.left(refused(400, "invalid_grant"))
    }
    if (found.consumed) {
      found.family.revoked = true
      return Either.left(refused(400, "invalid_grant"))
    }
    const scopes = found.family.scopes.filter((scope) => this.approved.has(scope))
    if (scopes.length === 0) return Either.left(refused(400, "invalid_grant"))
    found.consumed = true
    return Either.right(this.#grant(found.family, ascending(scopes), now))
  }

  revoke(token: string): void {
    const access = this.#access.get(token)
    if (access !== undefined) access.revoked = true
    const refresh = this.#refresh.get(token)
    if (refresh !== undefined) refresh.family.revoked = true
  }

  #live(token: string, now: number): Access | undefined {
    const found = this.#access.get(token)
    const alive = found !== undefined && !found.revoked && !found.family.revoked
    return alive && found.expiresAt > seconds(now) ? found : undefined
  }

  #membership({ family, scopes }: Access, handle: string): Option.Option<Membership> {
    const state = this.#actors.get(family.publicId)
    const membership = state?.memberships.get(handle)
    if (state === undefined || membership?.active !== true) return Option.none()
    const held = scopes.filter((scope) => this.approved.has(scope))
    return Option.some({
      organisation: handle,
      organisationUuid: this.organisationUuid(handle),
      membershipId: `${family.publicId}[${handle}]`,
      scopes: held,
      actor: held.includes("self.identity.read") ? Option.some(state.actor) : Option.none()
    })
  }

  introspect(token: string, now: number): Option.Option<Introspection> {
    const found = this.#live(token, now)
    if (found === undefined) return Option.none()
    return Option.some({
      publicId: this.disclosesSubject ? Option.some(found.family.publicId) : Option.none(),
      sessionId: found.family.sessionId,
      expiresAt: found.expiresAt,
      answeredAt: seconds(now) * 1000,
      memberships: ascending(found.family.organisations).flatMap((handle) =>
        Option.toArray(this.#membership(found, handle))
      )
    })
  }

  prove(
    request: {
      readonly subject: string
      readonly organisation: string
      readonly endpoint: TingEndpoint
      readonly body: Uint8Array
    },
    now: number
  ): Either.Either<{ readonly bearer: string; readonly path: string }, Refused> {
    const found = this.#live(request.subject, now)
    if (found === undefined) return Either.left(refused(400, "invalid_subject_token"))
    const membership = found.family.organisations.includes(request.organisation)
      ? this.#membership(found, request.organisation)
      : Option.none()
    if (Option.isNone(membership)) return Either.left(refused(403, "obo_organization_not_authorized"))
    if (!membership.value.scopes.includes(`obo:ting:${request.endpoint}`)) {
      return Either.left(refused(404, "not_found"))
    }
    const bearer = this.#token("obo")
    const path = endpointPaths[request.endpoint]
    this.#proofs.set(bearer, {
      endpoint: request.endpoint,
      path,
      bodyDigest: digest(request.body),
      organisation: request.organisation,
      organisationUuid: membership.value.organisationUuid,
      publicId: found.family.publicId,
      expiresAt: now + lifetimes.proof * 1000,
      consumed: false
    })
    return Either.right({ bearer, path })
  }

  /** Verifies and consumes a proof for an audience. None for a proof of another plane, a code for an invalid one. */
  consumeProof(
    bearer: string,
    call: { readonly endpoint: TingEndpoint; readonly body: Uint8Array },
    now: number
  ): Option.Option<Either.Either<IssuedProof, string>> {
    const proof = this.#proofs.get(bearer)
    if (proof === undefined) return Option.none()
    if (proof.consumed) return Option.some(Either.left("proof_consumed"))
    if (proof.expiresAt <= now) return Option.some(Either.left("proof_expired"))
    if (proof.endpoint !== call.endpoint || proof.bodyDigest !== digest(call.body)) {
      return Option.some(Either.left("invalid_proof"))
    }
    proof.consumed = true
    return Option.some(Either.right(proof))
  }
}
