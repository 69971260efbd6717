/** The programs that hold sessions, which are the real client, and the session stores of their machines. */
import { makeClient } from "../../../client/Client.ts"
import { SessionStoreError } from "../../../client/failures/StoreFailures.ts"
import { processLock, type SessionStore, type StoredSession } from "../../../client/stores/SessionStore.ts"
import { makeSend } from "../../../client/Transport.ts"
import type { SimulatedTime } from "../../world/Time.ts"
import { type Answer, connectionLost, type Sent } from "../../world/Driver.ts"

/** What happens to a request of a program. What happens to its store, and its death within a call, is proved in test/client/prove. */
export const clientFaults = ["request lost", "answer lost"] as const
type ClientFault = (typeof clientFaults)[number]

/** The stored session of each slot, which the programs of one machine share. */
export const makeMachine = () => {
  const slots = new Map<string, StoredSession>()
  const store: SessionStore = {
    load: async (slot) => slots.get(slot),
    save: async (slot, session, replaced) => {
      if (replaced !== undefined && (slots.get(slot)?.refresh_token ?? null) !== replaced)
        throw new SessionStoreError({ reason: "locked" })
      slots.set(slot, session)
    },
    clear: async (slot) => void slots.delete(slot),
    probe: async () => undefined,
    lock: processLock()
  }
  return { slots, store }
}
export type Machine = ReturnType<typeof makeMachine>

export interface ProgramOptions {
  readonly time: SimulatedTime
  readonly machine: Machine
  /** The testing secret, or null in production. */
  readonly testingKey: string | null
  /** Sends a request to one of the servers. */
  readonly reach: (request: Sent) => Promise<Answer>
}

const baseUrl = "https://music.test"

/** The real client, whose calls the sequences make. */
const makeCaller = ({ machine, testingKey, time }: ProgramOptions, fetch: typeof globalThis.fetch) =>
  makeClient(
    { baseUrl, source: "cli", telemetry: false, testingKey, sessionStore: machine.store },
    {
      send: makeSend((url, init) => fetch(url, init)),
      time: { now: time.now, monotonic: time.elapsed, random: () => 0.5, after: time.after }
    }
  )
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
  const { reach } = options
  let faults: ReadonlyArray<{ readonly kind: ClientFault; left: number }> = []

  const exchange: ProgramOptions["reach"] = async (request) => {
    const due = faults.find(({ left }) => left === 0)
    for (const fault of faults) fault.left -= 1
    faults = faults.filter((fault) => fault !== due)
    if (due?.kind === "request lost") throw connectionLost("ECONNRESET")
    const answer = await reach(request)
    if (due?.kind === "answer lost") throw connectionLost("ECONNRESET")
    return answer
  }

  return {
    caller: makeCaller(options, fetchThrough(exchange)),
    /** `after`: the number of exchanges that pass before. */
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
