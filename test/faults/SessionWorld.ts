/** The real service over a database that outlives it, with a simulated IAM that counts calls as its contract says, in simulated time. */
import { expect } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { Store, type StoreService } from "../../src/services/Store.ts"
import type { Kind } from "../layers/store/Stores.ts"
import { makeLedger } from "../proof/fairness/Ledger.ts"
import { newKey, requests } from "../proof/fairness/Requests.ts"
import { makeUpstreams } from "../proof/fairness/Upstreams.ts"
import { type Answer, openServer } from "../proof/fairness/World.ts"
import type { SettingsOverrides } from "../support/Settings.ts"
import { makeSimulatedTime, type SimulatedTime } from "../support/SimulatedTime.ts"
import { start } from "../support/UseCaseLayers.ts"

export const second = 1_000
export const minute = 60 * second

/** Time waits for each access of the store, because Postgres answers in the machine's time. */
const held = (time: SimulatedTime, store: StoreService): StoreService => {
  const hold = (access: unknown): unknown =>
    Effect.isEffect(access)
      ? Effect.suspend(() => {
          let end: () => void = () => undefined
          const ended = new Promise<void>((resolve) => {
            end = resolve
          })
          void time.hold(ended)
          // The effects of the ports need nothing.
          return Effect.ensuring(access as Effect.Effect<unknown>, Effect.sync(end))
        })
      : access
  const holding = <Noun extends object>(noun: Noun): Noun =>
    new Proxy(noun, {
      get: (target, name, receiver) => {
        const member: unknown = Reflect.get(target, name, receiver)
        return typeof member === "function"
          ? (...given: ReadonlyArray<unknown>) => hold(Reflect.apply(member, target, given))
          : hold(member)
      }
    })
  return {
    ...store,
    recipients: holding(store.recipients),
    loginOutcomes: holding(store.loginOutcomes),
    sessionDigests: holding(store.sessionDigests),
    deliveries: holding(store.deliveries),
    destinations: holding(store.destinations),
    spool: holding(store.spool)
  }
}

export interface Session {
  readonly address: string
  readonly accessToken: string
  readonly refreshToken: string
}

export const invent = (prefix: string, at: number) => `${prefix}_${String(at).padStart(43, "x")}`

type Request = ReturnType<typeof requests.me>
type Send = (address: string, request: Request) => Promise<Answer>

interface Options {
  readonly settings?: SettingsOverrides
  /** Replaces operations of the store. */
  readonly change?: (store: StoreService) => StoreService
}

/** A service whose processes start and end, and what its callers get. */
export const openSessionWorld = (kind: Kind, { change = (store) => store, settings = {} }: Options = {}) =>
  Effect.gen(function* () {
    const place = yield* kind.freshPath
    const time = makeSimulatedTime(start)
    const ledger = makeLedger(time.now)
    const upstreams = makeUpstreams(time, ledger, () => 20)
    const store = () =>
      Layer.scoped(
        Store,
        Effect.map(Effect.withClock(kind.openStore(place), Clock.make()), (opened) =>
          change(held(time, opened))
        )
      ).pipe(Layer.orDie)
    const open = () =>
      Effect.acquireRelease(
        Effect.promise(() => time.hold(openServer(1, { settings, store: store(), time, upstreams }))),
        ({ close }) => Effect.promise(close)
      )

    /** Sends until it is served, and comes back when it was told to; undefined after a minute. */
    const insist = async (send: Send, address: string, request: Request) => {
      const end = time.elapsed() + minute
      for (;;) {
        const answer = await send(address, request)
        if (answer.status < 300) return answer
        const wait = (answer.retryAfterSeconds ?? 5) * second
        if (answer.status === 401 || time.elapsed() + wait > end) return undefined
        await time.sleep(wait)
      }
    }

    const logIn = async (send: Send, at: number): Promise<Session> => {
      const actor = `c:person${at}`
      upstreams.controls.addActor(production, actor)
      upstreams.controls.addMembership(production, actor, "acme")
      const address = `198.51.100.${at}`
      const slt = upstreams.controls.mintSlt(production, { appId: "music", actor })
      const { body, status } = await send(address, requests.login(slt, newKey()))
      expect(status).toBe(200)
      return {
        address,
        accessToken: String(body.access_token),
        refreshToken: String(body.refresh_token)
      }
    }

    let invented = 0
    /** Each of 100 addresses sends an invented token every four seconds, from now on. */
    const flood = (send: () => Send) => {
      for (let at = 1; at <= 100; at += 1) {
        const loop = async (): Promise<never> => {
          await time.sleep(40 * at)
          for (;;) {
            invented += 1
            void send()(
              `203.0.113.${at}`,
              invented % 2 === 0
                ? requests.refresh(invent("ort", invented), newKey())
                : requests.me(invent("oat", invented))
            ).catch(() => undefined)
            await time.sleep(4 * second)
          }
        }
        void loop()
      }
    }

    /** How many of the sessions are served and refreshed within a minute. */
    const countServed = async (send: (at: number) => Send, sessions: ReadonlyArray<Session>) => {
      const served = await Promise.all(
        sessions.map(async ({ accessToken, address, refreshToken }, at) => {
          await time.sleep(at * second)
          const me = await insist(send(at), address, requests.me(accessToken))
          const refreshed = await insist(send(at), address, requests.refresh(refreshToken, newKey()))
          return me !== undefined && refreshed !== undefined
        })
      )
      return served.filter((isServed) => isServed).length
    }

    /** Runs the time of the simulation until the promise ends. */
    const complete = <A>(act: () => Promise<A>): Effect.Effect<A> =>
      Effect.promise(() => time.complete(act()))

    return {
      place,
      time,
      upstreams,
      complete,
      open,
      logIn,
      flood,
      countServed,
      limitedByIam: () => ledger.iamCalls.filter(({ status }) => status === 429).length
    }
  })
