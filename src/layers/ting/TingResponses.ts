/** Ting's success responses, with the checks before they are trusted (notification-service.md 3.1, 3.2). */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { AcceptedTing, RegisteredRecipient } from "../../services/Ting.ts"
import { expect, type ResponseReader, readJson } from "../upstream/UpstreamResponse.ts"

const readGrant = readJson(
  Schema.Struct({
    id: Schema.String.pipe(Schema.pattern(/^sub_[\x21-\x7e]{1,200}$/)),
    app_id: Schema.String,
    for: Schema.String,
    active: Schema.Literal(true)
  })
)

/** 201 for a new or reactivated grant, 200 for an active one. */
export const readRegistration =
  (applicationId: string, recipient: string): ResponseReader<RegisteredRecipient> =>
  (response) =>
    Either.gen(function* () {
      yield* expect(response.status === 200 || response.status === 201, "should be 200 or 201")
      const grant = yield* readGrant(response)
      yield* expect(grant.app_id === applicationId, "is for another application")
      yield* expect(grant.for === recipient, "is for another recipient")
      return { id: grant.id, applicationId: grant.app_id, recipient: grant.for }
    })

const readTing = readJson(
  Schema.Struct({
    id: Schema.String.pipe(Schema.pattern(/^msg_[\x21-\x7e]{1,200}$/)),
    // Parsed, not matched: the server writes six fractional digits, its documentation shows none.
    created_at: Schema.String.pipe(Schema.filter((text) => !Number.isNaN(Date.parse(text)))),
    status: Schema.Literal("accepted"),
    key: Schema.String,
    silent: Schema.Boolean
  })
)

/** 202 for a first acceptance, 200 for a replay of it. */
export const readAcceptance =
  (key: string): ResponseReader<AcceptedTing> =>
  (response) =>
    Either.gen(function* () {
      yield* expect(response.status === 200 || response.status === 202, "should be 200 or 202")
      const ting = yield* readTing(response)
      yield* expect(ting.key === key, "is for another key")
      return {
        id: ting.id,
        createdAt: ting.created_at,
        key: ting.key,
        silent: ting.silent,
        replayed: response.status === 200
      }
    })
