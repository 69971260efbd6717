/** Idempotency records of the simulated identity service (identity-service.md 4). */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { UpstreamKey } from "../../src/services/Iam.ts"
import type { Refused, UpstreamFailure } from "../../src/services/UpstreamFailure.ts"
import { refused } from "./IamPlane.ts"

/** Seconds for which a result is replayed; afterwards the record only remembers that there was one. */
export const replayWindows = { tokens: 600, revoke: 86_400 } as const

interface Record<A> {
  readonly payload: string
  readonly startedAt: number
  result: Either.Either<A, Refused> | undefined
}

export interface Keyed<A> {
  readonly key: UpstreamKey
  /** Canonical form of all content. */
  readonly payload: string
  /** True for a stored refusal: only the reuse of a refresh token is (identity-service.md 4). */
  readonly keeps: (refusal: Refused) => boolean
  readonly execute: (now: number) => Either.Either<A, Refused>
  /** Runs after the record is made and before the operation. */
  readonly meanwhile: Effect.Effect<void, UpstreamFailure>
}

export class Records<A> {
  readonly #records = new Map<UpstreamKey, Record<A>>()
  readonly #windowSeconds: number

  constructor(windowSeconds: number) {
    this.#windowSeconds = windowSeconds
  }

  #replay(
    record: Record<A>,
    payload: string,
    now: number
  ): Either.Either<{ readonly result: A; readonly replayed: boolean }, Refused> {
    if (record.payload !== payload) return Either.left(refused(409, "idempotency_conflict"))
    if (record.result === undefined) return Either.left(refused(409, "idempotency_in_progress"))
    return now - record.startedAt < this.#windowSeconds * 1000
      ? Either.map(record.result, (result) => ({ result, replayed: true }))
      : Either.left(refused(409, "idempotency_response_expired"))
  }

  run(call: Keyed<A>): Effect.Effect<{ readonly result: A; readonly replayed: boolean }, UpstreamFailure> {
    const records = this.#records
    const replay = (record: Record<A>, now: number) => this.#replay(record, call.payload, now)
    return Effect.gen(function* () {
      const startedAt = yield* Clock.currentTimeMillis
      const found = records.get(call.key)
      if (found !== undefined) return yield* replay(found, startedAt)
      const record: Record<A> = { payload: call.payload, startedAt, result: undefined }
      records.set(call.key, record)
      const forget = Effect.sync(() => {
        if (record.result === undefined) records.delete(call.key)
      })
      return yield* Effect.gen(function* () {
        yield* call.meanwhile
        const result = call.execute(yield* Clock.currentTimeMillis)
        if (Either.isRight(result) || call.keeps(result.left)) record.result = result
        return { result: yield* result, replayed: false }
      }).pipe(Effect.ensuring(forget))
    })
  }
}
