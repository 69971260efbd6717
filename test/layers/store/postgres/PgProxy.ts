/** A proxy between a store and its Postgres that can cut, freeze or slow connections, or lose the answer to a commit. */
import { once } from "node:events"
import { createServer, connect as dial, type Socket } from "node:net"
import * as Effect from "effect/Effect"

export interface PgProxy {
  /** The given address, through the proxy. */
  readonly url: string
  /** Breaks every connection and refuses new ones, until it is repaired. */
  readonly cut: Effect.Effect<void>
  /** Forwards nothing and closes nothing, until it is repaired. */
  readonly freeze: Effect.Effect<void>
  readonly repair: Effect.Effect<void>
  /** Delays every answer by so many milliseconds. */
  readonly slow: (millis: number) => Effect.Effect<void>
  /** Forwards the next commit to the server, and breaks the connection instead of forwarding the answer. */
  readonly loseNextCommit: Effect.Effect<void>
  /** Requests that followed an answer, so far: statements that are sent together count once. */
  readonly roundTrips: () => number
}

const listening = async (port: number, accept: (socket: Socket) => void) => {
  const server = createServer(accept).listen(port, "127.0.0.1")
  await once(server, "listening")
  return server
}

export const pgProxy = (address: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const target = new URL(address)
        const pairs = new Set<readonly [Socket, Socket]>()
        let frozen = false
        let losing = false
        let delay = 0
        let roundTrips = 0

        const accept = (near: Socket) => {
          const far = dial(Number(target.port), target.hostname)
          const pair = [near, far] as const
          pairs.add(pair)
          let lost = false
          let answered = true
          /** Answers that are not due yet, in order. */
          const late: Array<{ readonly chunk: Buffer; readonly due: number }> = []
          const forward = (): void => {
            for (;;) {
              const next = late[0]
              if (next === undefined) return
              const wait = next.due - performance.now()
              if (wait > 0) {
                setTimeout(forward, wait)
                return
              }
              near.write(next.chunk)
              late.shift()
            }
          }
          const end = () => {
            pairs.delete(pair)
            near.destroy()
            far.destroy()
          }
          for (const socket of pair) socket.on("error", end).on("close", end)
          near.on("data", (chunk) => {
            if (losing && chunk.includes("COMMIT\0")) {
              losing = false
              lost = true
            }
            if (answered) roundTrips += 1
            answered = false
            far.write(chunk)
          })
          far.on("data", (chunk) => {
            answered = true
            if (lost) end()
            else {
              late.push({ chunk, due: performance.now() + delay })
              if (late.length === 1) forward()
            }
          })
          if (frozen) pause(pair)
        }
        const pause = (pair: readonly [Socket, Socket]) => {
          for (const socket of pair) socket.pause()
        }

        let server = await listening(0, accept)
        const bound = server.address()
        const port = typeof bound === "object" && bound !== null ? bound.port : 0
        const url = new URL(address)
        url.port = String(port)

        const cut = async () => {
          const closed = once(server, "close")
          server.close()
          for (const [near, far] of pairs) {
            near.destroy()
            far.destroy()
          }
          await closed
        }
        return {
          url: url.href,
          cut,
          freeze: () => {
            frozen = true
            for (const pair of pairs) pause(pair)
          },
          repair: async () => {
            if (frozen) for (const pair of pairs) for (const socket of pair) socket.resume()
            frozen = false
            if (!server.listening) server = await listening(port, accept)
          },
          lose: () => {
            losing = true
          },
          slow: (millis: number) => {
            delay = millis
          },
          roundTrips: () => roundTrips
        }
      }),
      ({ cut, repair }) => Effect.promise(() => repair().then(cut))
    ),
    ({ cut, freeze, lose, repair, roundTrips, slow, url }): PgProxy => ({
      url,
      cut: Effect.promise(cut),
      freeze: Effect.sync(freeze),
      repair: Effect.promise(repair),
      slow: (millis) => Effect.sync(() => slow(millis)),
      loseNextCommit: Effect.sync(lose),
      roundTrips
    })
  )
