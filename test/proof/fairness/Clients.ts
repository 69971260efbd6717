/** Honest clients. They do what docs/client.md asks for: one session, refreshed a minute before its end, the same key for the same call, and no call before the time that a refusal gives. */
import { production } from "../../../sandbox/upstreams/Iam.ts"
import type { InMemoryRequest } from "../../support/InMemoryServer.ts"
import { minute, type OperationName } from "./Ledger.ts"
import { newKey, requests } from "./Requests.ts"
import type { Answer, World } from "./World.ts"

const second = 1_000

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
  /** Default: an actor of its own. */
  readonly actor?: string
}

interface Session {
  readonly accessToken: string
  readonly refreshToken: string
  /** Milliseconds of the simulation's time. */
  readonly expiresAt: number
}

const text = (value: unknown): string => (typeof value === "string" ? value : "")

export interface Client {
  readonly actor: string
  /** Performs an operation until it is served or refused for good. */
  readonly perform: (name: OperationName, request: () => InMemoryRequest) => Promise<Answer>
  /** Logs in, with another short-lived token when one has expired. */
  readonly logIn: () => Promise<void>
  /** The access token; waits while the session is being refreshed. */
  readonly token: () => Promise<string>
  /** Refreshes the session for ever; the first time after `firstAfter` milliseconds, if that is earlier. */
  readonly keepSession: (firstAfter?: number) => Promise<never>
  readonly me: () => Promise<Answer>
  readonly ting: () => Promise<Answer>
  readonly refresh: () => Promise<void>
  readonly logOut: () => Promise<void>
  /** Repeats with pauses for ever, from a random moment of the first period on. */
  readonly every: (period: number, act: () => Promise<unknown>) => Promise<never>
}

export const makeClient = (world: World, { kind, name, address, actor = `c:${name}` }: Identity): Client => {
  const { ledger, random, send, time, upstreams } = world
  let session: Session | undefined
  let refreshing: Promise<void> | undefined

  const perform: Client["perform"] = async (operation, request) => {
    const recorded = ledger.begin(kind, name, operation)
    for (let onTime = false; ; onTime = true) {
      const answer = await send(address, request())
      const { code, retryAfterSeconds, status } = answer
      recorded.attempted({ status, code, onTime })
      if (status < 300) {
        recorded.served()
        return answer
      }
      if (status !== 429 && status !== 503) {
        recorded.refused(code ?? String(status))
        // A call whose access token ended while its refresh waits is refused, and loses nothing.
        if (code === "unauthenticated" && operation === "refresh") ledger.sessionLost(kind, name)
        return answer
      }
      await time.sleep((retryAfterSeconds ?? defaultPause) * second + random.below(lateness))
    }
  }

  const keep = ({ access_token, expires_in, refresh_token }: Answer["body"]): void => {
    session = {
      accessToken: upstreams.own(text(access_token), kind),
      refreshToken: upstreams.own(text(refresh_token), kind),
      expiresAt: time.now() + Number(expires_in) * second
    }
  }

  const mint = (): string => {
    const { controls } = upstreams
    if (!world.actors.has(actor)) {
      world.actors.add(actor)
      controls.addActor(production, actor)
      controls.addMembership(production, actor, "acme")
    }
    return upstreams.own(controls.mintSlt(production, { appId: "music", actor }), kind)
  }

  const logIn: Client["logIn"] = async () => {
    for (;;) {
      const slt = mint()
      const key = newKey()
      const answer = await perform("login", () => requests.login(slt, key))
      if (answer.status < 300) return keep(answer.body)
    }
  }

  const refresh = (): Promise<void> => {
    const { refreshToken = "" } = session ?? {}
    const key = newKey()
    refreshing ??= perform("refresh", () => requests.refresh(refreshToken, key)).then((answer) => {
      refreshing = undefined
      if (answer.status < 300) keep(answer.body)
    })
    return refreshing
  }

  const token: Client["token"] = async () => {
    if (session !== undefined && session.expiresAt <= time.now()) await (refreshing ?? refresh())
    return session?.accessToken ?? ""
  }

  /** One after another: a client that waits for the time it was given makes no other call with its session meanwhile. */
  let previous: Promise<unknown> = Promise.resolve()
  const signed = (operation: OperationName, request: (token: string) => InMemoryRequest) => () => {
    const next = previous.then(async () => {
      await token()
      // A repetition uses the token of its time.
      return perform(operation, () => request(session?.accessToken ?? ""))
    })
    previous = next
    return next
  }

  return {
    actor,
    perform,
    logIn,
    token,
    refresh,
    keepSession: async (firstAfter = Number.POSITIVE_INFINITY) => {
      for (let most = firstAfter; ; most = Number.POSITIVE_INFINITY) {
        const untilEnd = (session?.expiresAt ?? 0) - refreshBefore - time.now()
        await time.sleep(Math.max(second, Math.min(untilEnd, most)))
        await refresh()
      }
    },
    me: signed("me", (access) => requests.me(access)),
    ting: () => {
      const key = `${actor}/${newKey()}`
      return signed("ting", (access) => requests.ting(access, key))()
    },
    logOut: async () => {
      const { refreshToken = "" } = session ?? {}
      const key = newKey()
      await perform("logout", () => requests.logout(refreshToken, key))
    },
    every: async (period, act) => {
      await time.sleep(random.below(period))
      for (;;) {
        await act()
        await time.sleep(period)
      }
    }
  }
}

/** Runs a client beside the others. */
export const start = (run: () => Promise<unknown>): void => void run()

/** A daemon: `me` every two minutes, a ting every five, and a refreshed session. `loginAt` and `activeFrom` in milliseconds from the start. */
export const daemon =
  (
    world: World,
    identity: Identity,
    {
      activeFrom,
      loginAt,
      mePeriod = 2 * minute,
      tingPeriod = 5 * minute
    }: {
      readonly loginAt: number
      readonly activeFrom: number
      readonly mePeriod?: number
      readonly tingPeriod?: number
    }
  ) =>
  async (): Promise<void> => {
    const client = makeClient(world, identity)
    await world.time.sleep(loginAt)
    await client.logIn()
    await world.time.sleep(activeFrom - world.time.elapsed())
    // As if it had logged in at any time of the half hour before.
    start(() => client.keepSession(world.random.below(29 * minute)))
    start(() => client.every(mePeriod, client.me))
    start(() => client.every(tingPeriod, client.ting))
  }

/** A person at a command line: logs in, makes a few calls, logs out. */
export const commandLine = (world: World, identity: Identity, at: number) => async (): Promise<void> => {
  const client = makeClient(world, identity)
  await world.time.sleep(at)
  await client.logIn()
  await world.time.sleep(2 * second)
  await client.me()
  await world.time.sleep(5 * second)
  await client.ting()
  await world.time.sleep(10 * second)
  await client.logOut()
}

/** A page: logs in, asks who it is every three minutes, and sends telemetry. */
export const page = (world: World, identity: Identity, loginAt: number) => async (): Promise<void> => {
  const client = makeClient(world, identity)
  await world.time.sleep(loginAt)
  await client.logIn()
  start(() => client.keepSession())
  start(() => client.every(3 * minute, client.me))
  start(() => client.every(minute, () => client.perform("telemetry", () => requests.telemetry(2))))
}

/** A person with a session who reports a fault from time to time. */
export const reporter =
  (
    world: World,
    identity: Identity,
    { loginAt, period }: { readonly loginAt: number; readonly period: number }
  ) =>
  async (): Promise<void> => {
    const client = makeClient(world, identity)
    await world.time.sleep(loginAt)
    await client.logIn()
    start(() => client.keepSession())
    await client.every(period, async () => {
      const token = await client.token()
      const key = newKey()
      await client.perform("report", () => requests.report(`verified ${identity.name} ${key}`, key, token))
    })
  }
