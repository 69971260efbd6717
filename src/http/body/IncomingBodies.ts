/** Bodies on their way: they hold no place among the requests in flight, so they have bounds of their own. */
import type { IncomingMessage } from "node:http"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Failure, Overloaded } from "../../schema/Failure.ts"
import { bodiesArriving, recordNow } from "../../services/Metrics.ts"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import { Settings } from "../../services/Settings.ts"
import { bytesOf } from "./BodyReader.ts"
import { clientAddressFor, networkOf } from "../transport/ClientAddress.ts"
import type { RequestState } from "../middleware/RequestState.ts"
import { lateFailure } from "../middleware/Late.ts"

/** How many bodies may arrive at once; one of an honest client is on its way for an instant. */
export interface IncomingBodyLimits {
  readonly all: number
  /** Of one client address (a /64 of IPv6); not applied where `MUSIC_RATE_LIMIT` is off, for there all may share one. */
  readonly address: number
}

/** Of 1 MiB at most each: what they hold of the memory is bounded with them. */
export const defaultIncomingBodyLimits: IncomingBodyLimits = { all: 256, address: 64 }

/** One body that has not arrived whole. */
interface Receipt {
  /** Monotonic milliseconds. */
  readonly deadlineAt: number
  readonly cut: (failure: Failure) => void
}

/** The first that was added. */
const oldestOf = (receipts: Iterable<Receipt>): Receipt | undefined => {
  for (const receipt of receipts) return receipt
  return undefined
}

const largestOf = (crowds: Iterable<ReadonlySet<Receipt>>): ReadonlySet<Receipt> => {
  let largest: ReadonlySet<Receipt> = new Set()
  for (const crowd of crowds) if (crowd.size > largest.size) largest = crowd
  return largest
}

interface ReceiptsService {
  /**
   * The bytes of a request's body. Where there is no room the oldest body of whoever has most of them makes it: one that
   * stalls must not keep one out that comes. Fails as a defect, like the reading itself.
   */
  readonly bytesOf: (exchange: RequestState, bound: number) => Effect.Effect<Uint8Array>
  /** Refuses whatever has not arrived whole. */
  readonly cutAll: (failure: Failure) => Effect.Effect<void>
}

/** Receives bodies, none of them for longer than its request's deadline. */
export class IncomingBodies extends Context.Tag("music/http/IncomingBodies")<
  IncomingBodies,
  ReceiptsService
>() {
  static readonly layer = (
    bounds: IncomingBodyLimits = defaultIncomingBodyLimits
  ): Layer.Layer<IncomingBodies, never, Settings> =>
    Layer.scoped(
      IncomingBodies,
      Effect.gen(function* () {
        const { rateLimit, trustedProxies } = yield* Settings
        const addressOf = clientAddressFor(trustedProxies)
        const senderOf = (message: IncomingMessage) => networkOf(addressOf(message))
        const addressBound = rateLimit ? bounds.address : bounds.all
        // In order of arrival, both.
        const all = new Set<Receipt>()
        const bySender = new Map<string, Set<Receipt>>()
        const some = yield* Effect.makeLatch(false)

        const leave = (sender: string, receipt: Receipt) => {
          const own = bySender.get(sender)
          if (own?.delete(receipt) && own.size === 0) bySender.delete(sender)
          if (!all.delete(receipt)) return
          recordNow(bodiesArriving, all.size)
          if (all.size === 0) some.unsafeClose()
        }

        const crowdFor = (sender: string): Iterable<Receipt> => {
          const own = bySender.get(sender)
          if (own !== undefined && own.size >= addressBound) return own
          return all.size >= bounds.all ? largestOf(bySender.values()) : []
        }

        const enter = (exchange: RequestState, cut: (failure: Failure) => void): (() => void) => {
          const sender = senderOf(exchange.message)
          oldestOf(crowdFor(sender))?.cut(new Overloaded({ retryAfterSeconds: 1 }))
          const receipt: Receipt = {
            deadlineAt: exchange.info.deadlineAt,
            cut: (failure) => {
              exchange.unread = true
              cut(failure)
            }
          }
          all.add(receipt)
          const own = bySender.get(sender)
          if (own === undefined) bySender.set(sender, new Set([receipt]))
          else own.add(receipt)
          recordNow(bodiesArriving, all.size)
          if (all.size === 1) some.unsafeOpen()
          return () => leave(sender, receipt)
        }

        const cutWhere = (chosen: (receipt: Receipt) => boolean, failure: Failure) => {
          for (const receipt of [...all]) if (chosen(receipt)) receipt.cut(failure)
        }

        // One timer for all of them: most bodies are there before a timer of their own would be.
        const watch = Effect.gen(function* () {
          yield* some.await
          const now = yield* monotonicMillis
          cutWhere(({ deadlineAt }) => deadlineAt <= now, lateFailure())
          const next = oldestOf(all)
          if (next !== undefined) yield* Effect.sleep(Math.max(1, next.deadlineAt - now))
        })
        yield* Effect.forkScoped(Effect.forever(watch))

        return {
          bytesOf: (exchange, bound) => bytesOf(exchange.message, bound, (cut) => enter(exchange, cut)),
          cutAll: (failure) => Effect.sync(() => cutWhere(() => true, failure))
        }
      })
    )
}
