/** The programs that hold sessions, which are the real client, and the session stores of their machines. */
import { makeClient } from "../../../client/Client.ts"
import { SessionStoreError } from "../../../client/failures/StoreFailures.ts"
import { processLock, type SessionStore, type StoredSession } from "../../../client/stores/SessionStore.ts"
import { makeSend } from "../../../client/Transport.ts"
import type { MusicError, Result } from "../../../client/Types.ts"
import type { SimulatedTime } from "../../world/Time.ts"
import { type Answer, connectionLost, type Sent } from "../../world/Driver.ts"

/** How a call ended. */
export type Outcome<A> =
  | { readonly ok: true; readonly value: A }
  | {
      readonly ok: false
      readonly code: string
      /** Of `logged_out`. */
      readonly reason?: string | undefined
    }

const tingType = "music.trigger.fired"

const exchangeFaults = ["request lost", "answer lost", "killed before", "killed after"] as const
const saveFaults = ["save fails", "killed before save", "killed after save"] as const
export const clientFaults = [...exchangeFaults, ...saveFaults]
type ClientFault = (typeof clientFaults)[number]

/** The program that uses the store. */
interface StoreUser {
  /** Aborted when the program dies. */
  readonly end: AbortSignal
  /** What happens to the next save; it is over then. */
  readonly takeSaveFault: () => "save fails" | "killed before save" | "killed after save" | undefined
  readonly kill: () => void
}

/** What a dead program waits for. */
const never = <A>() => new Promise<A>(() => undefined)

export const makeMachine = () => {
  /** The stored session of each slot. */
  const slots = new Map<string, StoredSession>()
  const { acquire } = processLock()

  const storeFor = (user: StoreUser): SessionStore => {
    const whileAlive = async <A>(run: () => A | Promise<A>): Promise<A> =>
      user.end.aborted ? never<A>() : run()
    const save: SessionStore["save"] = (slot, session, replaced) =>
      whileAlive(() => {
        const fault = user.takeSaveFault()
        if (fault === "save fails") throw new SessionStoreError({ reason: "no_space" })
        if (fault === "killed before save") user.kill()
        if (user.end.aborted) return never<void>()
        if (replaced !== undefined && (slots.get(slot)?.refresh_token ?? null) !== replaced)
          throw new SessionStoreError({ reason: "locked" })
        slots.set(slot, session)
        if (fault === undefined) return undefined
        user.kill()
        return never<void>()
      })
    return {
      load: (slot) => whileAlive(() => slots.get(slot)),
      save,
      clear: (slot) => whileAlive(() => void slots.delete(slot)),
      probe: () => whileAlive(() => undefined),
      lock: {
        acquire: (slot, signal) =>
          whileAlive(async () => {
            const release = await acquire(slot, AbortSignal.any([signal, user.end]))
            // The operating system ends what a dead program holds.
            if (user.end.aborted) await release()
            user.end.addEventListener("abort", () => void release())
            return release
          })
      }
    }
  }
  return { slots, storeFor }
}
export type Machine = ReturnType<typeof makeMachine>

export class Killed extends Error {}

export interface ProgramOptions {
  readonly time: SimulatedTime
  readonly machine: Machine
  /** The testing secret, or null in production. */
  readonly testingKey: string | null
  /** Sends a request to one of the servers. */
  readonly reach: (request: Sent) => Promise<Answer>
}

const baseUrl = "https://music.test"

const outcomeOfFailure = ({ code, details }: MusicError): Outcome<never> => {
  const { reason } = Object(details)
  return { ok: false, code, reason: typeof reason === "string" ? reason : undefined }
}

const makeCaller = (
  { testingKey, time }: ProgramOptions,
  store: SessionStore,
  fetch: typeof globalThis.fetch
) => {
  const client = makeClient(
    { baseUrl, source: "cli", telemetry: false, testingKey, sessionStore: store },
    {
      send: makeSend((url, init) => fetch(url, init)),
      time: { now: time.now, monotonic: time.elapsed, random: () => 0.5, after: time.after }
    }
  )
  const run = async <A>(call: Promise<Result<A, MusicError>>): Promise<Outcome<A>> => {
    const result = await call
    return result.ok ? { ok: true, value: result.value } : outcomeOfFailure(result.error)
  }
  /** The calls that the sequences make. */
  return {
    login: (slt: string, key?: string) =>
      run(client.login(slt, key === undefined ? {} : { idempotencyKey: key })),
    logout: (forget: boolean) => run(client.logout({ forget })),
    me: () => run(client.me()),
    subscribe: () => run(client.subscribe()),
    ting: (key: string) => run(client.ting({ type: tingType, key, data: { n: 1 } }))
  }
}

export type Caller = ReturnType<typeof makeCaller>

const fetchThrough =
  (exchange: ProgramOptions["reach"]): typeof globalThis.fetch =>
  async (url, init) => {
    const aborted = new Promise<never>((_, reject) => {
      init?.signal?.addEventListener("abort", () => reject(init.signal?.reason), { once: true })
    })
    const { headers, status, text } = await Promise.race([
      exchange({
        method: init?.method ?? "GET",
        path: String(url).slice(baseUrl.length),
        headers: Object.fromEntries(new Headers(init?.headers)),
        ...(typeof init?.body === "string" ? { body: init.body } : {})
      }),
      aborted
    ])
    return new Response(status === 204 || status === 304 ? null : text, { status, headers })
  }

export const startProgram = (options: ProgramOptions) => {
  const { machine, reach } = options
  const end = new AbortController()
  let faults: ReadonlyArray<{ readonly kind: ClientFault; left: number }> = []
  const killed = new Promise<never>((_, reject) => {
    end.signal.addEventListener("abort", () => reject(new Killed()))
  })
  killed.catch(() => undefined)
  const kill = () => end.abort()

  const take = <K extends ClientFault>(kinds: ReadonlyArray<K>): K | undefined => {
    const matching = faults.filter(({ kind }) => kinds.some((one) => one === kind))
    const due = matching.find(({ left }) => left === 0)
    for (const fault of matching) fault.left -= 1
    faults = faults.filter((fault) => fault !== due)
    return kinds.find((kind) => kind === due?.kind)
  }

  /** One exchange, with what happens to it at the side of the client. */
  const exchange: ProgramOptions["reach"] = async (request) => {
    if (end.signal.aborted) return never()
    const fault = take(exchangeFaults)
    if (fault === "killed before") kill()
    if (fault === "request lost") throw connectionLost("ECONNRESET")
    const answer = end.signal.aborted ? await never<Answer>() : await reach(request)
    if (fault === "killed after") kill()
    if (end.signal.aborted) return never()
    if (fault === "answer lost") throw connectionLost("ECONNRESET")
    return answer
  }

  const user: StoreUser = { end: end.signal, kill, takeSaveFault: () => take(saveFaults) }
  return {
    caller: makeCaller(options, machine.storeFor(user), fetchThrough(exchange)),
    kill,
    /** Rejects when the program dies. */
    killed,
    /** `after`: the number of exchanges, or of saves, that pass before. */
    plan: (kind: ClientFault, after: number) => {
      faults = [...faults, { kind, left: after }]
    },
    clearFaults: () => {
      faults = []
    }
  }
}

export type Program = ReturnType<typeof startProgram>

/** The session of one plane that a machine has stored. */
export const storedIn = ({ slots }: Machine, isTesting: boolean): StoredSession | undefined =>
  [...slots.values()].find(({ testing_environment_id }) => (testing_environment_id !== null) === isTesting)
