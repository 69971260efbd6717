/** Callers with sessions and a flood of invented tokens, over instances in memory that share a database and an IAM with its contract's limits. */
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { addActor } from "../world/Calls.ts"
import { bodyOf, requests, retryAfterOf, type Sent } from "../world/Driver.ts"
import { type Instance, openWorld, type WorldOptions } from "../world/World.ts"

export const second = 1_000
export const minute = 60 * second

export interface Session {
  readonly address: string
  readonly accessToken: string
  readonly refreshToken: string
}

let keys = 0
/** A key that no other caller has. */
export const newKey = (): string => {
  keys += 1
  return `session-key-${String(keys).padStart(12, "0")}`
}
export const invent = (prefix: string, at: number) => `${prefix}_${String(at).padStart(43, "x")}`

export const openSessionWorld = (options: WorldOptions = {}) =>
  Effect.gen(function* () {
    const world = yield* Effect.acquireRelease(
      Effect.promise(() => openWorld({ tables: [], latency: { back: () => 20 }, ...options })),
      ({ close }) => Effect.promise(close)
    )
    const { time, upstreams } = world

    const logIn = async ({ send }: Instance, at: number): Promise<Session> => {
      const slt = upstreams.iam.controls.mintSlt("production", {
        appId: "music",
        actor: addActor(world, `c:person${at}`)
      })
      const address = `198.51.100.${at}`
      const answer = await send(address, requests.login(slt, newKey()))
      expect(answer.status).toBe(200)
      const { access_token, refresh_token } = bodyOf(answer)
      return { address, accessToken: String(access_token), refreshToken: String(refresh_token) }
    }

    let invented = 0
    /** Each of 100 addresses sends an invented token every ten seconds, from now on: five times what IAM takes. */
    const flood = (instance: () => Pick<Instance, "send">) => {
      const loop = async (at: number): Promise<never> => {
        await time.sleep(100 * at)
        for (;;) {
          invented += 1
          const request =
            invented % 2 === 0
              ? requests.refresh(invent("ort", invented), newKey())
              : requests.me(invent("oat", invented))
          void instance()
            .send(`203.0.113.${at}`, request)
            .catch(() => undefined)
          await time.sleep(10 * second)
        }
      }
      for (let at = 1; at <= 100; at += 1) void loop(at)
    }

    /** Whether the request is served within a minute, by a caller who comes back after `Retry-After`. */
    const isServed = async ({ send }: Instance, address: string, request: Sent): Promise<boolean> => {
      const end = time.elapsed() + minute
      for (;;) {
        const answer = await send(address, request)
        if (answer.status < 300) return true
        const wait = (retryAfterOf(answer) ?? 5) * second
        if (answer.status === 401 || time.elapsed() + wait > end) return false
        await time.sleep(wait)
      }
    }

    /** How many of the sessions are served and refreshed within a minute. */
    const countServed = async (instance: Instance, sessions: ReadonlyArray<Session>) => {
      const served = await Promise.all(
        sessions.map(async ({ accessToken, address, refreshToken }, at) => {
          await time.sleep(at * second)
          const me = await isServed(instance, address, requests.me(accessToken))
          return (await isServed(instance, address, requests.refresh(refreshToken, newKey()))) && me
        })
      )
      return served.filter((each) => each).length
    }

    /** Runs the time of the simulation until the promise ends. */
    const complete = <A>(act: () => Promise<A>): Effect.Effect<A> =>
      Effect.promise(() => time.complete(act()))
    const limitedByIam = () =>
      upstreams.calls.filter(({ status, upstream }) => upstream === "iam" && status === 429).length
    return { ...world, complete, logIn, flood, countServed, limitedByIam }
  })
