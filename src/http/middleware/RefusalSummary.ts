/** Sums the requests that quotas refused: one log line a minute at most, however many there are. */
import * as Effect from "effect/Effect"

/** What was refused. Names of this program, so that their number is bounded. */
export interface Refusal {
  readonly quota: string
  readonly method: string
  readonly route: string
}

const windowSeconds = 60
/** Addresses that are counted in a window, and those of them that the line names. */
const addressesCounted = 10_000
const addressesNamed = 10

interface Count {
  readonly of: Refusal
  requests: number
}

/** Makes the function that counts a refused request, and its client's address where that is logged. */
export const makeRefusalSummary = Effect.gen(function* () {
  const counts = new Map<string, Count>()
  const addresses = new Map<string, number>()
  const begun = yield* Effect.makeLatch()

  const report = Effect.suspend(() => {
    if (counts.size === 0) return Effect.void
    const refused = [...counts.values()].map(({ of, requests }) => ({ ...of, requests }))
    const named = [...addresses]
      .sort(([, one], [, other]) => other - one)
      .slice(0, addressesNamed)
      .map(([client_address, requests]) => ({ client_address, requests }))
    counts.clear()
    addresses.clear()
    return Effect.logInfo("Requests refused by rate limits", {
      requests: refused.reduce((sum, { requests }) => sum + requests, 0),
      refused,
      ...(named.length === 0 ? {} : { addresses: named })
    })
  })

  yield* Effect.forkScoped(
    Effect.forever(
      begun.await.pipe(
        Effect.zipRight(Effect.sleep(windowSeconds * 1_000)),
        Effect.zipRight(begun.close),
        Effect.zipRight(report)
      )
    )
  )
  yield* Effect.addFinalizer(() => report)

  return (refusal: Refusal, address: string | undefined): void => {
    const key = `${refusal.quota} ${refusal.method} ${refusal.route}`
    const count = counts.get(key) ?? { of: refusal, requests: 0 }
    counts.set(key, count)
    count.requests += 1
    if (address !== undefined && (addresses.has(address) || addresses.size < addressesCounted))
      addresses.set(address, (addresses.get(address) ?? 0) + 1)
    begun.unsafeOpen()
  }
})
