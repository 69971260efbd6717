/** Hosts that invent credentials, and people who log in behind the same address. */
import { isSuccess, requests, retryAfterOf, type Sent } from "../../world/Driver.ts"
import { second } from "./Clients.ts"
import { minute } from "./Ledger.ts"
import { openWorld, start, type World } from "./World.ts"

/** Milliseconds for which a short-lived token works. */
const tokenLife = 120 * second
/** Milliseconds within which a person comes after the time that a refusal gives. */
const lateness = 500
/** Milliseconds from the start: by then the inventor holds all places of its share. */
const from = 1.5 * minute

export const inventions = {
  "short-lived tokens": "oac",
  "refresh tokens": "ort",
  "access tokens": "oat"
} as const
export type Invented = keyof typeof inventions

const requestsOf = (world: World, kind: Invented) => (): (() => Sent) => {
  const credential = world.invent(inventions[kind], "inventor")
  if (kind === "short-lived tokens") return () => requests.login(credential, world.newKey())
  return kind === "refresh tokens"
    ? () => requests.refresh(credential, world.newKey())
    : () => requests.me(credential)
}

export interface Inventor {
  readonly address: () => string
  readonly isPatient: boolean
  readonly kind?: Invented
  readonly perSecond?: number
}

/**
 * Sends `perSecond` requests a second from its address, in step with the ends of its own calls. A patient one brings each
 * refused credential back on time, and invents another one only when none is due.
 */
const invent = (
  world: World,
  { address, isPatient, kind = "short-lived tokens", perSecond = 1 }: Inventor
): void => {
  const { random, send, time } = world
  const next = requestsOf(world, kind)
  let waiting: ReadonlyArray<{ readonly at: number; readonly request: () => Sent }> = []
  const sendOne = async () => {
    const due = waiting.find(({ at }) => at <= time.now())
    waiting = waiting.filter((one) => one !== due)
    const request = due?.request ?? next()
    const answer = await send(address(), request())
    if (!isPatient || answer.status !== 429) return
    const at = time.now() + (retryAfterOf(answer) ?? 1) * second
    waiting = [...waiting, { at, request }].sort((one, other) => one.at - other.at)
  }
  start(async () => {
    await time.sleep(random.below(second))
    for (;;) {
      start(sendOne)
      await time.sleep(second / perSecond)
    }
  })
}

interface Visit {
  readonly retryAfter: Array<number>
  /** From the first request to the session. */
  milliseconds: number
}

/** Logs in at a time, comes back at its `Retry-After`, and takes another short-lived token when one ends. */
const visit = (world: World, actor: string, address: string, at: number): Visit => {
  const { mint, newKey, random, send, time } = world
  const made: Visit = { retryAfter: [], milliseconds: Number.POSITIVE_INFINITY }
  start(async () => {
    await time.sleep(at)
    const began = time.now()
    for (;;) {
      const slt = mint(actor, "person")
      const ends = time.now() + tokenLife
      const key = newKey()
      while (time.now() < ends) {
        const answer = await send(address, requests.login(slt, key))
        if (isSuccess(answer)) {
          made.milliseconds = time.now() - began
          return
        }
        made.retryAfter.push(retryAfterOf(answer) ?? Number.NaN)
        await time.sleep((retryAfterOf(answer) ?? 1) * second + random.below(lateness))
      }
    }
  })
  return made
}

/** Six people, one every two seconds, at these addresses. */
export interface Visitors {
  readonly addressOf: (index: number) => string
  readonly minutes: number
}

/** How many of each six log in within their minutes beside the inventors, each `Retry-After` that they got, and IAM's refusals. */
export const visitBeside = async (inventors: ReadonlyArray<Inventor>, visitors: ReadonlyArray<Visitors>) => {
  const world = await openWorld(1)
  try {
    for (const inventor of inventors) invent(world, inventor)
    const visits = visitors.map(({ addressOf }, group) =>
      Array.from({ length: 6 }, (_, index) => {
        const at = from + index * 2 * second + world.random.below(second)
        return visit(world, `c:person-${group}-${index}`, addressOf(index), at)
      })
    )
    const longest = Math.max(...visitors.map(({ minutes }) => minutes))
    await world.time.runUntil(from + (longest + 0.25) * minute)
    return {
      served: visitors.map(
        ({ minutes }, group) =>
          visits[group]?.filter(({ milliseconds }) => milliseconds <= minutes * minute).length ?? 0
      ),
      retryAfter: visits.flat().flatMap(({ retryAfter }) => retryAfter),
      refusedByIam: world.ledger.refusedByIam()
    }
  } finally {
    await world.close()
  }
}
