/** The programs that hold sessions: the real client, and one of another language that follows docs/client.md. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type { MusicFailure } from "../../../client/failures/Failures.ts"
import { Jitter } from "../../../client/calls/Retry.ts"
import { makeMusicClient, type MusicClientService } from "../../../client/MusicClient.ts"
import { fetchTransport } from "../../../client/transport/FetchTransport.ts"
import type { SessionStore } from "../../../client/stores/SessionStore.ts"
import type { Me, SessionInfo, Ting } from "../../../client/Types.ts"
import type { InMemoryRequest, InMemoryResponse } from "../../support/InMemoryServer.ts"
import { scheduler, type SimulatedTime } from "../../support/SimulatedTime.ts"
import { makeOtherLanguage } from "./OtherLanguage.ts"
import { connectionLost } from "./Instance.ts"
import type { Machine, StoreUser } from "./Machine.ts"

/** How a call ended, in both languages. */
export type Outcome<A> =
  | { readonly ok: true; readonly value: A }
  | {
      readonly ok: false
      readonly code: string
      /** Of `logged_out`. */
      readonly reason: string | undefined
      readonly retryAfterSeconds: number | undefined
    }

/** The calls that the sequences make. */
export interface Caller {
  readonly login: (slt: string, key?: string) => Promise<Outcome<unknown>>
  readonly logout: (forget: boolean) => Promise<Outcome<unknown>>
  readonly session: () => Promise<Outcome<Pick<SessionInfo, "actor" | "testing_environment_id"> | undefined>>
  readonly me: () => Promise<Outcome<Me>>
  readonly subscribe: () => Promise<Outcome<unknown>>
  readonly ting: (type: string, key: string) => Promise<Outcome<Ting>>
}

export const clientFaultKinds = [
  "request lost",
  "answer lost",
  "killed before",
  "killed after",
  "save fails",
  "killed before save",
  "killed after save"
] as const
export type ClientFaultKind = (typeof clientFaultKinds)[number]

export interface Program extends StoreUser {
  readonly caller: Caller
  /** Rejects when the program dies. */
  readonly killed: Promise<never>
  /** `after`: the number of exchanges, or of saves, that pass before. */
  readonly plan: (fault: { readonly kind: ClientFaultKind; readonly after: number }) => void
  readonly clearFaults: () => void
}

export class Killed extends Error {}

export type Reach = (request: InMemoryRequest) => Promise<InMemoryResponse>

export interface ProgramOptions {
  readonly time: SimulatedTime
  readonly machine: Machine
  /** The testing secret, or null in production. */
  readonly testingKey: string | null
  readonly isOtherLanguage: boolean
  /** Sends a request to one of the servers. */
  readonly reach: Reach
}

const baseUrl = "https://music.test"

export const outcomeOfFailure = ({ code, details, retryAfterSeconds }: MusicFailure): Outcome<never> => {
  const reason =
    typeof details === "object" && details !== null && "reason" in details ? details.reason : undefined
  return { ok: false, code, reason: typeof reason === "string" ? reason : undefined, retryAfterSeconds }
}

/** The real client. */
const realCaller = (
  { testingKey, time }: ProgramOptions,
  store: SessionStore,
  fetch: typeof globalThis.fetch
): Caller => {
  const client: MusicClientService = Effect.runSync(
    Effect.withClock(
      makeMusicClient(
        { baseUrl, source: "cli", telemetry: false, testingKey, sessionStore: store },
        fetchTransport((url, init) => fetch(url, init))
      ),
      time.clock
    )
  )
  const run = <A>(effect: Effect.Effect<A, MusicFailure>): Promise<Outcome<A>> =>
    Effect.runPromise(
      Effect.either(effect).pipe(
        Effect.withClock(time.clock),
        Effect.provideService(Jitter, Effect.succeed(0.5)),
        Effect.withScheduler(scheduler)
      )
    ).then((result) =>
      Either.isRight(result) ? { ok: true, value: result.right } : outcomeOfFailure(result.left)
    )
  return {
    login: (slt, key) => run(client.login(slt, key === undefined ? {} : { idempotencyKey: key })),
    logout: (forget) => run(client.logout({ forget })),
    session: () => run(Effect.map(client.session, Option.getOrUndefined)),
    me: () => run(client.me()),
    subscribe: () => run(client.subscribe()),
    ting: (type, key) => run(client.ting({ type, key, data: { n: 1 } }))
  }
}

export const startProgram = (options: ProgramOptions): Program => {
  const { isOtherLanguage, machine, reach, testingKey, time } = options
  let alive = true
  let die: () => void = () => undefined
  let faults: ReadonlyArray<{ readonly kind: ClientFaultKind; left: number }> = []
  const killed = new Promise<never>((_, reject) => {
    die = () => reject(new Killed())
  })
  killed.catch(() => undefined)

  const take = (kinds: ReadonlyArray<ClientFaultKind>): ClientFaultKind | undefined => {
    const matching = faults.filter(({ kind }) => kinds.includes(kind))
    const due = matching.find(({ left }) => left === 0)
    for (const fault of matching) fault.left -= 1
    faults = faults.filter((fault) => fault !== due)
    return due?.kind
  }

  const user: StoreUser = {
    isAlive: () => alive,
    takeSaveFault: () => {
      switch (take(["save fails", "killed before save", "killed after save"])) {
        case "save fails":
          return "fails"
        case "killed before save":
          return "killed before"
        case "killed after save":
          return "killed after"
        default:
          return undefined
      }
    },
    kill: () => {
      if (!alive) return
      alive = false
      machine.release(user)
      die()
    }
  }

  const never = <A>() => new Promise<A>(() => undefined)
  const end = <A>() => {
    user.kill()
    return never<A>()
  }

  /** One exchange, with what happens to it at the side of the client. */
  const exchange: Reach = async (request) => {
    if (!alive) return never()
    const fault = take(["request lost", "answer lost", "killed before", "killed after"])
    if (fault === "killed before") return end()
    if (fault === "request lost") throw connectionLost("ECONNRESET")
    const answer = await reach(request)
    if (!alive) return never()
    if (fault === "killed after") return end()
    if (fault === "answer lost") throw connectionLost("ECONNRESET")
    return answer
  }

  const fetch: typeof globalThis.fetch = async (url, init) => {
    const { signal } = init ?? {}
    const aborted = new Promise<never>((_, reject) => {
      signal?.addEventListener("abort", () => reject(signal.reason), { once: true })
    })
    aborted.catch(() => undefined)
    const answer = await Promise.race([
      exchange({
        method: init?.method ?? "GET",
        path: String(url).slice(baseUrl.length),
        headers: Object.fromEntries(new Headers(init?.headers)),
        ...(typeof init?.body === "string" ? { body: init.body } : {})
      }),
      aborted
    ])
    const hasBody = answer.status !== 204 && answer.status !== 304
    return new Response(hasBody ? answer.text : null, { status: answer.status, headers: answer.headers })
  }

  const store = machine.storeFor(user)
  const caller = isOtherLanguage
    ? makeOtherLanguage({ store, time, testingKey, exchange })
    : realCaller(options, store, fetch)
  return {
    ...user,
    caller,
    killed,
    plan: ({ after, kind }) => {
      faults = [...faults, { kind, left: after }]
    },
    clearFaults: () => {
      faults = []
    }
  }
}
