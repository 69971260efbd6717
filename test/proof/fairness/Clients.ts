/** Honest clients. They do what docs/client.md asks for: one session, refreshed a minute before its end, the same key for the same call, and no call before the time that a refusal gives. */
import {
  type Answer,
  bodyOf,
  codeOf,
  isSuccess,
  requests,
  retryAfterOf,
  type Sent
} from "../../world/Driver.ts"
import type { Tokens } from "../../world/Calls.ts"
import { type Group, minute, second, start, type World } from "./World.ts"

/** Milliseconds before the end of an access token at which it is refreshed. */
const refreshBefore = minute
/** Seconds until a repetition where the answer names no time. */
const defaultPause = 5
/** Milliseconds within which a client comes after the time it was given. */
const lateness = 500

export interface Identity {
  readonly kind: string
  readonly name: string
  readonly address: string
}

export const makeClient = (world: World, { address, kind, name }: Identity) => {
  const { ledger, mint, newKey, ownTokens, random, send, time } = world
  const actor = `c:${name}`
  let session: (Tokens & { readonly expiresAt: number }) | undefined
  let refreshing: Promise<void> | undefined

  /** Performs an operation until it is served or refused for good. */
  const perform = async (group: Group, request: () => Sent): Promise<Answer> => {
    const operation = ledger.begin(kind, group)
    for (;;) {
      const answer = await send(address, request())
      if (ledger.attempted(operation, answer)) return answer
      await time.sleep((retryAfterOf(answer) ?? defaultPause) * second + random.below(lateness))
    }
  }

  const keep = (answer: Answer): void => {
    const tokens = ownTokens(answer, kind)
    if (tokens !== undefined)
      session = { ...tokens, expiresAt: time.now() + Number(bodyOf(answer).expires_in) * second }
  }

  /** With another short-lived token when one has expired. */
  const logIn = async (): Promise<void> => {
    for (;;) {
      const slt = mint(actor, kind)
      const key = newKey()
      const answer = await perform("session", () => requests.login(slt, key))
      if (isSuccess(answer)) return keep(answer)
    }
  }

  const refresh = (): Promise<void> => {
    const { refresh: token = "" } = session ?? {}
    const key = newKey()
    refreshing ??= perform("session", () => requests.refresh(token, key)).then((answer) => {
      refreshing = undefined
      if (codeOf(answer) === "unauthenticated") ledger.lost.add(`${kind} ${name}`)
      keep(answer)
    })
    return refreshing
  }

  /** The access token; waits while the session is being refreshed. */
  const token = async (): Promise<string> => {
    if (session !== undefined && session.expiresAt <= time.now()) await (refreshing ?? refresh())
    return session?.access ?? ""
  }

  /** One after another: a client that waits for the time it was given makes no other call with its session meanwhile. */
  let previous: Promise<unknown> = Promise.resolve()
  const signed = (request: (token: string) => Sent): Promise<unknown> => {
    previous = previous.then(async () => {
      await token()
      // A repetition uses the token of its time.
      await perform("use", () => request(session?.access ?? ""))
    })
    return previous
  }

  return {
    logIn,
    refresh,
    /** Refreshes the session for ever; the first time after `firstAfter` milliseconds, if that is earlier. */
    keepSession: async (firstAfter = Number.POSITIVE_INFINITY): Promise<never> => {
      for (let most = firstAfter; ; most = Number.POSITIVE_INFINITY) {
        const untilEnd = (session?.expiresAt ?? 0) - refreshBefore - time.now()
        await time.sleep(Math.max(second, Math.min(untilEnd, most)))
        await refresh()
      }
    },
    me: () => signed((access) => requests.me(access)),
    ting: () => {
      const key = `${actor}/${newKey()}`
      return signed((access) => requests.ting(access, key))
    },
    logOut: () => {
      const { refresh: token = "" } = session ?? {}
      const key = newKey()
      return perform("session", () => requests.logout(token, key))
    },
    /** Repeats with pauses for ever, from a random moment of the first period on. */
    every: async (period: number, act: () => Promise<unknown>): Promise<never> => {
      await time.sleep(random.below(period))
      for (;;) {
        await act()
        await time.sleep(period)
      }
    }
  }
}

/** A client that logs in at a time, and what it does then. */
export const after = (
  world: World,
  identity: Identity,
  at: number,
  act: (client: ReturnType<typeof makeClient>) => Promise<unknown>
): void =>
  start(async () => {
    const client = makeClient(world, identity)
    await world.time.sleep(at)
    await client.logIn()
    await act(client)
  })

/** A daemon: `me` every two minutes, a ting every five, and a refreshed session. Milliseconds from the start. */
export const daemon = (world: World, identity: Identity, loginAt: number, activeFrom: number): void =>
  after(world, identity, loginAt, async ({ every, keepSession, me, ting }) => {
    await world.time.sleep(activeFrom - world.time.elapsed())
    // As if it had logged in at any time of the half hour before.
    start(() => keepSession(world.random.below(29 * minute)))
    start(() => every(2 * minute, me))
    start(() => every(5 * minute, ting))
  })

/** A person at a command line: logs in, makes a few calls, logs out. */
export const commandLine = (world: World, identity: Identity, at: number): void =>
  after(world, identity, at, async (client) => {
    await world.time.sleep(2 * second)
    await client.me()
    await world.time.sleep(5 * second)
    await client.ting()
    await world.time.sleep(10 * second)
    await client.logOut()
  })
