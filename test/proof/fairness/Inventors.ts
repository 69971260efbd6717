/** Hosts that invent credentials, and people who log in behind the same address. */
import { production } from "../../../sandbox/upstreams/Iam.ts"
import type { InMemoryRequest } from "../../support/InMemoryServer.ts"
import { addActor, inventions } from "./Attackers.ts"
import { start } from "./Clients.ts"
import { newKey, requests } from "./Requests.ts"
import type { Answer, World } from "./World.ts"

const second = 1_000
/** Milliseconds for which a short-lived token works. */
const tokenLife = 120 * second
/** Milliseconds within which a person comes after the time that a refusal gives. */
const lateness = 500

export type Invented = "short-lived tokens" | "refresh tokens" | "access tokens"

const requestsOf = (world: World, kind: Invented): (() => () => InMemoryRequest) => {
  const { accessToken, refreshToken, slt } = inventions(world, "inventor")
  const request = (credential: string): InMemoryRequest => {
    if (kind === "short-lived tokens") return requests.login(credential, newKey())
    return kind === "refresh tokens" ? requests.refresh(credential, newKey()) : requests.me(credential)
  }
  const make = kind === "short-lived tokens" ? slt : kind === "refresh tokens" ? refreshToken : accessToken
  return () => {
    const credential = make()
    return () => request(credential)
  }
}

const retryAt = (world: World, { retryAfterSeconds = 1 }: Answer): number =>
  world.time.now() + retryAfterSeconds * second

/**
 * Sends `perSecond` requests a second from its address, in step with the ends of its own calls. A patient one brings each
 * refused credential back on time, and invents another one only when none is due.
 */
export const invent = (
  world: World,
  {
    address,
    isPatient,
    kind = "short-lived tokens",
    perSecond = 1
  }: {
    readonly address: () => string
    readonly isPatient: boolean
    readonly kind?: Invented
    readonly perSecond?: number
  }
): void => {
  const { random, send, time } = world
  const next = requestsOf(world, kind)
  let waiting: Array<{ readonly at: number; readonly request: () => InMemoryRequest }> = []
  const sendOne = async () => {
    const due = waiting.find(({ at }) => at <= time.now())
    waiting = waiting.filter((one) => one !== due)
    const request = due?.request ?? next()
    const answer = await send(address(), request())
    if (isPatient && answer.status === 429) {
      waiting.push({ at: retryAt(world, answer), request })
      waiting.sort((one, other) => one.at - other.at)
    }
  }
  start(async () => {
    await time.sleep(random.below(second))
    for (;;) {
      start(sendOne)
      await time.sleep(second / perSecond)
    }
  })
}

export interface Visit {
  readonly retryAfter: Array<number>
  /** Seconds from the first request to the session. */
  seconds: number
}

/** Logs in at a time, comes back at its `Retry-After`, and takes another short-lived token when one ends. */
export const visit = (world: World, name: string, address: string, at: number): Visit => {
  const { random, send, time, upstreams } = world
  const actor = `c:${name}`
  addActor(world, actor)
  const made: Visit = { retryAfter: [], seconds: Number.POSITIVE_INFINITY }
  start(async () => {
    await time.sleep(at)
    const from = time.now()
    for (;;) {
      const slt = upstreams.own(upstreams.controls.mintSlt(production, { appId: "music", actor }), "person")
      const ends = time.now() + tokenLife
      const key = newKey()
      while (time.now() < ends) {
        const answer = await send(address, requests.login(slt, key))
        if (answer.status === 200) {
          made.seconds = (time.now() - from) / second
          return
        }
        made.retryAfter.push(answer.retryAfterSeconds ?? Number.NaN)
        await time.sleep(retryAt(world, answer) - time.now() + random.below(lateness))
      }
    }
  })
  return made
}

/** Six people, one every two seconds. */
export const sixVisits = (
  world: World,
  name: string,
  addressOf: (index: number) => string,
  from: number
): ReadonlyArray<Visit> =>
  Array.from({ length: 6 }, (_, index) =>
    visit(world, `${name}${index}`, addressOf(index), from + index * 2 * second + world.random.below(second))
  )

export const servedWithin = (visits: ReadonlyArray<Visit>, minutes: number): number =>
  visits.filter(({ seconds }) => seconds <= minutes * 60).length

/** Refusals of IAM for too many calls. */
export const limitedByIam = ({ ledger }: World): number =>
  ledger.iamCalls.filter(({ status }) => status === 429).length
