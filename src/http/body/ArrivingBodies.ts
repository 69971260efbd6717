/** Request bodies while they arrive: they hold no place among the requests in flight, so they have bounds of their own. */
import type { IncomingMessage } from "node:http"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Failure, Overloaded } from "../../schema/Failure.ts"
import { bodiesArriving, recordNow } from "../../services/Metrics.ts"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import type { RequestInfo } from "../../services/RequestContext.ts"
import { Settings } from "../../services/Settings.ts"
import { requestTimeout } from "../../services/UnparsedRequest.ts"
import { readBytes } from "./BodyReader.ts"

/** How many bodies may arrive at once; the body of an honest client takes an instant. */
export interface ArrivingBodyLimits {
  readonly all: number
  /** Of one client address (a /64 of IPv6). Not applied with `MUSIC_RATE_LIMIT=off`, where all clients may share one. */
  readonly address: number
}

/** Each body is at most 1 MiB, so these limits bound the memory too. */
export const defaultArrivingBodyLimits: ArrivingBodyLimits = { all: 256, address: 64 }

/** A body that has not arrived completely. */
interface ArrivingBody {
  /** Monotonic milliseconds. */
  readonly deadlineAt: number
  readonly cut: (failure: Failure) => void
}

/** The first in order of insertion. */
const oldestOf = (bodies: Iterable<ArrivingBody>): ArrivingBody | undefined => {
  for (const body of bodies) return body
  return undefined
}

const largestOf = (groups: Iterable<ReadonlySet<ArrivingBody>>): ReadonlySet<ArrivingBody> => {
  let largest: ReadonlySet<ArrivingBody> = new Set()
  for (const group of groups) if (group.size > largest.size) largest = group
  return largest
}

interface ArrivingBodiesService {
  /**
   * Reads the bytes of a body until the deadline of its request. At a limit it refuses the oldest body of the
   * client with the most of them, so that stalled bodies cannot keep a new one out.
   */
  readonly read: (
    message: IncomingMessage,
    bound: number,
    info: Pick<RequestInfo, "clientNetwork" | "deadlineAt">
  ) => Effect.Effect<Uint8Array, Failure>
  /** Refuses every body that has not arrived completely. */
  readonly cutAll: (failure: Failure) => Effect.Effect<void>
}

/** Reads request bodies within the limits and each request's deadline. */
export class ArrivingBodies extends Context.Tag("music/http/ArrivingBodies")<
  ArrivingBodies,
  ArrivingBodiesService
>() {
  static readonly layer = (
    limits: ArrivingBodyLimits = defaultArrivingBodyLimits
  ): Layer.Layer<ArrivingBodies, never, Settings> =>
    Layer.scoped(
      ArrivingBodies,
      Effect.gen(function* () {
        const { rateLimit } = yield* Settings
        const addressLimit = rateLimit ? limits.address : limits.all
        // Both in order of arrival.
        const all = new Set<ArrivingBody>()
        const byNetwork = new Map<string, Set<ArrivingBody>>()
        const someArriving = yield* Effect.makeLatch(false)

        const remove = (network: string, body: ArrivingBody) => {
          const group = byNetwork.get(network)
          if (group?.delete(body) && group.size === 0) byNetwork.delete(network)
          if (!all.delete(body)) return
          recordNow(bodiesArriving, all.size)
          if (all.size === 0) someArriving.unsafeClose()
        }

        /** The bodies of which one must make room; none below the limits. */
        const bodiesOverLimit = (network: string): Iterable<ArrivingBody> => {
          const group = byNetwork.get(network)
          if (group !== undefined && group.size >= addressLimit) return group
          return all.size >= limits.all ? largestOf(byNetwork.values()) : []
        }

        const add = (network: string, body: ArrivingBody): void => {
          oldestOf(bodiesOverLimit(network))?.cut(new Overloaded({ retryAfterSeconds: 1 }))
          all.add(body)
          const group = byNetwork.get(network)
          if (group === undefined) byNetwork.set(network, new Set([body]))
          else group.add(body)
          recordNow(bodiesArriving, all.size)
          if (all.size === 1) someArriving.unsafeOpen()
        }

        const cutWhere = (isChosen: (body: ArrivingBody) => boolean, failure: Failure) => {
          for (const body of [...all]) if (isChosen(body)) body.cut(failure)
        }

        // One timer for all bodies: most arrive before a timer of their own would start.
        const cutLate = Effect.gen(function* () {
          yield* someArriving.await
          const now = yield* monotonicMillis
          cutWhere(({ deadlineAt }) => deadlineAt <= now, requestTimeout())
          const next = oldestOf(all)
          if (next !== undefined) yield* Effect.sleep(Math.max(1, next.deadlineAt - now))
        })
        yield* Effect.forkScoped(Effect.forever(cutLate))

        return {
          read: (message, bound, { clientNetwork, deadlineAt }) =>
            readBytes(message, bound, (cut) => {
              const body: ArrivingBody = { deadlineAt, cut }
              add(clientNetwork, body)
              return () => remove(clientNetwork, body)
            }),
          cutAll: (failure) => Effect.sync(() => cutWhere(() => true, failure))
        }
      })
    )
}
