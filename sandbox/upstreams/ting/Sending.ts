/** Accepts one ting, without waiting, so that two sends under one key cannot both be accepted (notification-service.md 3.2 and 7). */
import { createHash } from "node:crypto"
import { canonical, type JsonObject } from "../Json.ts"
import type { Reply } from "../Simulator.ts"
import { TingError } from "./Errors.ts"
import { exactly, isActor, isKey, isType, newId, objectField, text } from "./Fields.ts"
import { findGrant, type Org, type Plane } from "./Model.ts"

/** How long a key is kept after its first acceptance, milliseconds. */
const keyLife = 1_209_600_000

/** Digest of the whole body as canonical JSON, with the organisation's UUID and explicit metadata. */
const contentDigest = (fields: JsonObject, org: Org): string =>
  createHash("sha256")
    .update(canonical({ metadata: {}, ...fields, org_id: org.id ?? org.handle }))
    .digest("hex")

/** RFC 3339 UTC with six fraction digits; the last three distinguish tings of one millisecond. */
const timestamp = (at: number, sequence: number): string =>
  new Date(at).toISOString().replace("Z", `${String(sequence % 1000).padStart(3, "0")}Z`)

/** Accepts a ting of the verified application, replays an earlier acceptance, or refuses. */
export const send = (plane: Plane, org: Org, issuer: string, fields: JsonObject, now: number): Reply => {
  exactly(fields, ["org_id", "type", "for", "key", "data"], ["metadata"])
  const type = text(fields, "type", isType)
  if (!type.startsWith(`${issuer}.`)) throw new TingError("permission_denied")
  const actor = text(fields, "for", isActor)
  const key = text(fields, "key", isKey)
  const data = objectField(fields, "data")
  const metadata = Object.hasOwn(fields, "metadata") ? objectField(fields, "metadata") : {}

  const slot = JSON.stringify([org.id ?? org.handle, issuer, key])
  const digest = contentDigest(fields, org)
  const known = plane.keys.get(slot)
  if (known !== undefined && now < known.acceptedAt + keyLife) {
    if (known.digest !== digest) throw new TingError("idempotency_conflict")
    return { ...known.reply, status: 200 }
  }

  if (!plane.types.has(type))
    throw new TingError("not_found", "the type is not registered for this application")
  const grant = findGrant(plane, org, issuer, actor)
  if (grant?.active !== true) throw new TingError("recipient_not_registered")

  const ting = {
    id: newId("msg"),
    org,
    appId: issuer,
    created_at: timestamp(now, plane.tings.length + 1),
    type,
    data,
    metadata,
    for: actor,
    key,
    // No recipient mutes the application here.
    silent: false
  }
  plane.tings.push(ting)
  const reply: Reply = {
    status: 202,
    body: {
      id: ting.id,
      created_at: ting.created_at,
      status: "accepted",
      key,
      silent: ting.silent
    }
  }
  plane.keys.set(slot, { digest, acceptedAt: now, reply })
  return reply
}
