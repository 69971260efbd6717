/** Hosts that invent credentials, and people who log in behind the same address. */
import { requests, retryAfterOf, type Sent } from "../../world/Driver.ts"
import { makeClient } from "./Clients.ts"
import { minute, openWorld, second, start, type World } from "./World.ts"

/** Milliseconds from the start: by then the inventor holds all places of its share. */
const from = 1.5 * minute

export type Invented = "oac" | "ort" | "oat"

interface Inventor {
  readonly address: () => string
  readonly isPatient: boolean
  readonly kind?: Invented
  readonly perSecond?: number
}

/**
 * Sends `perSecond` requests a second from its address, in step with the ends of its own calls. A patient one brings each
 * refused credential back on time, and invents another one only when none is due.
 */
const invent = (world: World, { address, isPatient, kind = "oac", perSecond = 1 }: Inventor): void => {
  const { newKey, random, send, time } = world
  const next = (): (() => Sent) => {
    const credential = world.invent(kind, "inventor")
    if (kind === "oat") return () => requests.me(credential)
    return () => (kind === "oac" ? requests.login : requests.refresh)(credential, newKey())
  }
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

/** Six people, one every two seconds, at these addresses. */
interface Visitors {
  readonly addressOf: (index: number) => string
  readonly minutes: number
  /** So many of them are enough: all where it is left out. */
  readonly enough?: number
}

/** How many of each six log in within their minutes beside the inventors, the seconds that they had to wait, and IAM's refusals; ends once enough of each are served. */
export const visitBeside = async (inventors: ReadonlyArray<Inventor>, visitors: ReadonlyArray<Visitors>) => {
  const world = await openWorld(1)
  const { ledger, random, time } = world
  try {
    for (const inventor of inventors) invent(world, inventor)
    const served = visitors.map(() => 0)
    for (const [group, { addressOf, minutes }] of visitors.entries())
      for (let index = 0; index < 6; index += 1) {
        const at = from + index * 2 * second + random.below(second)
        const name = `person-${group}-${index}`
        start(async () => {
          await time.sleep(at)
          await makeClient(world, { kind: "person", name, address: addressOf(index) }).logIn()
          if (time.elapsed() - at <= minutes * minute) served[group] = (served[group] ?? 0) + 1
        })
      }
    const longest = Math.max(...visitors.map(({ minutes }) => minutes))
    const end = from + (longest + 0.25) * minute
    const isEnough = () => visitors.every(({ enough = 6 }, group) => (served[group] ?? 0) >= enough)
    while (time.elapsed() < end && !isEnough())
      await time.runUntil(Math.min(end, time.elapsed() + 5 * second))
    return { served, waits: ledger.waits, refusedByIam: world.refusedByIam() }
  } finally {
    await world.close()
  }
}

/**
 * How many of 20 sessions are used and refreshed within a minute each by an instance that did not hand them out: a second one, or the one
 * that follows the first. Meanwhile 100 addresses invent five times the tokens that IAM takes.
 */
export const serveInFlood = async (size: 1 | 2) => {
  const world = await openWorld(1, size)
  const { instances, loop, newKey, time } = world
  try {
    const [first] = instances
    let current = first
    const send: World["send"] = async (address, request) =>
      current?.send(address, request) ?? Promise.reject(new Error("no instance"))
    const people = Array.from({ length: 20 }, (_, index) => {
      const identity = { kind: "person", name: `person${index}`, address: `198.51.100.${index}` }
      return makeClient({ ...world, send }, identity)
    })
    const logInAll = async () => {
      for (const { logIn } of people) {
        await logIn()
        await time.sleep(3 * second)
      }
      await time.sleep(minute)
    }
    await time.complete(logInAll())
    for (let at = 1; at <= 100; at += 1) {
      const invented = () =>
        at % 2 === 0
          ? requests.refresh(world.invent("ort", "inventor"), newKey())
          : requests.me(world.invent("oat", "inventor"))
      start(() => loop(10 * second, `203.0.113.${at}`, invented))
    }
    await time.runUntil(time.elapsed() + minute)
    current = instances[1] ?? world.start()
    if (size === 1 && first !== undefined) await time.complete(first.close())
    let served = 0
    const use = async ({ me, refresh }: (typeof people)[number], at: number) => {
      await time.sleep(at * second)
      for (const act of [me, refresh]) {
        const began = time.elapsed()
        await act()
        if (time.elapsed() - began > minute) return
      }
      served += 1
    }
    for (const [at, person] of people.entries()) start(() => use(person, at))
    await time.runUntil(time.elapsed() + 2.5 * minute)
    return { served, refusedByIam: world.refusedByIam() }
  } finally {
    await world.close()
  }
}
