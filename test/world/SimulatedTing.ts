/** The notification service as a layer: grants and keys in memory (notification-service.md 3 and 7), proofs verified with the simulated IAM. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import type { Proof, TingEndpoint } from "../../src/services/Iam.ts"
import {
  type AcceptedTing,
  type PreparedCall,
  type RegisteredRecipient,
  Ting,
  type TingService
} from "../../src/services/Ting.ts"
import { Refused, type UpstreamFailure } from "../../src/services/UpstreamFailure.ts"
import { digestOf, sha256 } from "../../src/services/Digest.ts"
import { SimulatedIam } from "./SimulatedIam.ts"
import { makeFaultSwitches, type FaultSwitches } from "./FaultSwitches.ts"

export type TingMethod = "register" | "send"

/** A call as it arrived. */
export interface SeenCall {
  readonly method: TingMethod
  readonly body: Uint8Array
  /** Digest of the bearer, to distinguish proofs. */
  readonly proof: string
}

interface Grant {
  readonly registration: RegisteredRecipient
  active: boolean
}

interface TingPlane {
  readonly grants: Map<string, Grant>
  readonly keys: Map<string, { readonly digest: string; readonly reply: AcceptedTing }>
}

export interface Recipient {
  /** Default `production`. */
  readonly plane?: string
  readonly organisation: string
  readonly publicId: string
}

export interface SimulatedTingService extends FaultSwitches<TingMethod> {
  readonly seen: Effect.Effect<ReadonlyArray<SeenCall>>
  /** The recipient withdraws the grant; registering again gives it back. */
  readonly revokeGrant: (recipient: Recipient) => Effect.Effect<void>
  readonly isRegistered: (recipient: Recipient) => Effect.Effect<boolean>
}

export class SimulatedTing extends Context.Tag("test/SimulatedTing")<SimulatedTing, SimulatedTingService>() {}

export const tingRefusal = (status: number, code: string, retryAfterSeconds?: number): Refused =>
  new Refused({
    dependency: "ting",
    status,
    code,
    requestId: "req_ting",
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds })
  })

const paths = {
  "subscriptions.register": "/v1/subscriptions",
  "tings.send": "/v1/tings"
} as const satisfies Record<TingEndpoint, string>

/** Ting's code for a proof that IAM refuses (notification-service.md 4). */
const proofRefusal = (code: string): string =>
  code === "obo_proof_consumed"
    ? "proof_consumed"
    : code === "obo_proof_expired"
      ? "proof_expired"
      : "invalid_proof"

const utf8 = new TextEncoder()
const fields = (body: Uint8Array): Readonly<Record<string, string>> =>
  JSON.parse(new TextDecoder().decode(body))

const make = Effect.gen(function* () {
  const iam = yield* SimulatedIam
  const { gate, ...switches } = makeFaultSwitches<TingMethod>()
  const planes = new Map<string, TingPlane>()
  const seen: Array<SeenCall> = []
  let issued = 0

  const planeOf = (name: string): TingPlane => {
    const found = planes.get(name) ?? { grants: new Map(), keys: new Map() }
    planes.set(name, found)
    return found
  }

  const id = (prefix: string) => {
    issued += 1
    return `${prefix}_${sha256(`${prefix} ${issued}`).slice(0, 32)}`
  }

  /** Consumes the proof before any check of the operation (notification-service.md 2). */
  const verified = (method: TingMethod, call: PreparedCall, proof: Proof) =>
    Effect.gen(function* () {
      seen.push({ method, body: call.body, proof: digestOf(proof.bearer) })
      const verified = yield* iam.verifyProof(proof, { path: paths[call.endpoint], body: call.body })
      if (Either.isLeft(verified)) return yield* tingRefusal(401, proofRefusal(verified.left))
      return { ...verified.right, body: fields(call.body), state: planeOf(verified.right.plane) }
    })

  const grantKey = (organisation: string, publicId: string) => `${organisation} ${publicId}`

  const register = (call: PreparedCall, proof: Proof): Effect.Effect<RegisteredRecipient, UpstreamFailure> =>
    Effect.gen(function* () {
      const { body, publicId, organisation, state } = yield* verified("register", call, proof)
      if (body.for !== publicId || body.app_id !== "music")
        return yield* tingRefusal(403, "permission_denied")
      const key = grantKey(organisation, publicId)
      const grant = state.grants.get(key) ?? {
        registration: { id: id("sub"), applicationId: "music", recipient: publicId },
        active: true
      }
      grant.active = true
      state.grants.set(key, grant)
      return grant.registration
    }).pipe(gate.through("register"))

  const send = (call: PreparedCall, proof: Proof): Effect.Effect<AcceptedTing, UpstreamFailure> =>
    Effect.gen(function* () {
      const { body, organisation, state } = yield* verified("send", call, proof)
      const now = yield* Clock.currentTimeMillis
      const slot = `${organisation} ${body.key}`
      const known = state.keys.get(slot)
      if (known !== undefined) {
        return known.digest === sha256(call.body)
          ? { ...known.reply, replayed: true }
          : yield* tingRefusal(409, "idempotency_conflict")
      }
      if (state.grants.get(grantKey(organisation, body.for ?? ""))?.active !== true) {
        return yield* tingRefusal(403, "recipient_not_registered")
      }
      const reply: AcceptedTing = {
        id: id("msg"),
        createdAt: new Date(now).toISOString(),
        key: body.key ?? "",
        silent: false,
        replayed: false
      }
      state.keys.set(slot, { digest: sha256(call.body), reply })
      return reply
    }).pipe(gate.through("send"))

  const ting: TingService = {
    prepareRegistration: ({ organisation, publicId }) => ({
      endpoint: "subscriptions.register",
      body: utf8.encode(JSON.stringify({ org_id: organisation, app_id: "music", for: publicId })),
      expected: publicId
    }),
    prepareTing: ({ organisation, recipient, type, key, data, metadata }) => ({
      endpoint: "tings.send",
      body: utf8.encode(
        JSON.stringify({ org_id: organisation, type, for: recipient, key, data, metadata: metadata ?? {} })
      ),
      expected: key
    }),
    register,
    send
  }

  const grantOf = ({ plane = "production", organisation, publicId }: Recipient) =>
    planeOf(plane).grants.get(grantKey(organisation, publicId))

  const simulated: SimulatedTingService = {
    ...switches,
    seen: Effect.sync(() => [...seen]),
    revokeGrant: (recipient) =>
      Effect.sync(() => {
        const grant = grantOf(recipient)
        if (grant !== undefined) grant.active = false
      }),
    isRegistered: (recipient) => Effect.sync(() => grantOf(recipient)?.active === true)
  }
  return Context.make(Ting, ting).pipe(Context.add(SimulatedTing, simulated))
})

export const layer: Layer.Layer<Ting | SimulatedTing, never, SimulatedIam> = Layer.effectContext(make)
