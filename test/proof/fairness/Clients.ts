/** Honest clients. They do what docs/client.md asks for: one session, refreshed a minute before its end, the same key for the same call, and no call before the time that a refusal gives. */
import { randomUUID } from "node:crypto"
import {
  type Answer,
  bodyOf,
  codeOf,
  isSuccess,
  requests,
  retryAfterOf,
  type Sent
} from "../../world/Driver.ts"
import { minute, type OperationName } from "./Ledger.ts"
import { resultOf, start, type Tokens, tokensOf, type World } from "./World.ts"

export const second = 1_000

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
  const { ledger, mint, newKey, own, random, send, time } = world
  const actor = `c:${name}`
  let session: (Tokens & { readonly expiresAt: number }) | undefined
  let refreshing: Promise<void> | undefined

  /** Performs an operation until it is served or refused for good. */
  const perform = async (operation: OperationName, request: () => Sent): Promise<Answer> => {
    const recorded = ledger.begin(kind, name, operation)
    for (let onTime = false; ; onTime = true) {
      const answer = await send(address, request())
      recorded.attempted(resultOf(answer), onTime)
      const isOver = isSuccess(answer) || (answer.status !== 429 && answer.status !== 503)
      if (isOver) {
        recorded.ended(isSuccess(answer))
        // A call whose access token ended while its refresh waits is refused, and loses nothing.
        if (codeOf(answer) === "unauthenticated" && operation === "refresh") ledger.sessionLost(kind, name)
        return answer
      }
      await time.sleep((retryAfterOf(answer) ?? defaultPause) * second + random.below(lateness))
    }
  }

  const keep = (answer: Answer): void => {
    const tokens = tokensOf(answer)
    if (tokens === undefined) return
    for (const token of Object.values(tokens)) own(token, kind)
    session = { ...tokens, expiresAt: time.now() + Number(bodyOf(answer).expires_in) * second }
  }

  /** With another short-lived token when one has expired. */
  const logIn = async (): Promise<void> => {
    for (;;) {
      const slt = mint(actor, kind)
      const key = newKey()
      const answer = await perform("login", () => requests.login(slt, key))
      if (isSuccess(answer)) return keep(answer)
    }
  }

  const refresh = (): Promise<void> => {
    const { refresh: token = "" } = session ?? {}
    const key = newKey()
    refreshing ??= perform("refresh", () => requests.refresh(token, key)).then((answer) => {
      refreshing = undefined
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
  const signed = (operation: OperationName, request: (token: string) => Sent): Promise<unknown> => {
    previous = previous.then(async () => {
      await token()
      // A repetition uses the token of its time.
      await perform(operation, () => request(session?.access ?? ""))
    })
    return previous
  }

  return {
    perform,
    logIn,
    /** Refreshes the session for ever; the first time after `firstAfter` milliseconds, if that is earlier. */
    keepSession: async (firstAfter = Number.POSITIVE_INFINITY): Promise<never> => {
      for (let most = firstAfter; ; most = Number.POSITIVE_INFINITY) {
        const untilEnd = (session?.expiresAt ?? 0) - refreshBefore - time.now()
        await time.sleep(Math.max(second, Math.min(untilEnd, most)))
        await refresh()
      }
    },
    me: () => signed("me", (access) => requests.me(access)),
    ting: () => {
      const key = `${actor}/${newKey()}`
      return signed("ting", (access) => requests.ting(access, key))
    },
    report: async () => {
      const access = await token()
      const key = newKey()
      await perform("report", () => requests.report(`verified ${name} ${key}`, key, access))
    },
    telemetry: (events: number) => perform("telemetry", () => telemetryOf(events)),
    logOut: () => {
      const { refresh: token = "" } = session ?? {}
      const key = newKey()
      return perform("logout", () => requests.logout(token, key))
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

export const telemetryOf = (events: number, bytes = 0): Sent =>
  requests.telemetry(
    Array.from({ length: events }, () => ({
      id: randomUUID(),
      type: "playback",
      ...(bytes === 0 ? {} : { text: "x".repeat(bytes) })
    }))
  )

/** A client that logs in at a time, and what it does then. */
const after = (
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

/** A page: logs in, asks who it is every three minutes, and sends telemetry. */
export const page = (world: World, identity: Identity, loginAt: number): void =>
  after(world, identity, loginAt, async ({ every, keepSession, me, telemetry }) => {
    start(() => keepSession())
    start(() => every(3 * minute, me))
    start(() => every(minute, () => telemetry(2)))
  })

/** A person with a session who reports a fault from time to time. */
export const reporter = (world: World, identity: Identity, loginAt: number, period: number): void =>
  after(world, identity, loginAt, async ({ every, keepSession, report }) => {
    start(() => keepSession())
    await every(period, report)
  })
