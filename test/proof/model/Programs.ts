/**
 * The programs that hold sessions, which are the real client, and the session stores of their machines. Their requests and answers are lost
 * with the servers; what happens to a store, and the death of a program within a call, is proved in test/client/prove.
 */
import { makeClient } from "../../../client/Client.ts"
import { SessionStoreError } from "../../../client/failures/StoreFailures.ts"
import { processLock, type SessionStore, type StoredSession } from "../../../client/stores/SessionStore.ts"
import { makeSend } from "../../../client/Transport.ts"
import type { SimulatedTime } from "../../world/Time.ts"
import type { Answer, Sent } from "../../world/Driver.ts"

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

/** The real client, whose calls the sequences make. */
export const startProgram = ({ machine, reach, testingKey, time }: ProgramOptions) =>
  makeClient(
    { baseUrl, source: "cli", telemetry: false, testingKey, sessionStore: machine.store },
    {
      send: makeSend((url, init) => fetchThrough(reach)(url, init)),
      time: { now: time.now, monotonic: time.elapsed, random: () => 0.5, after: time.after }
    }
  )
export type Program = ReturnType<typeof startProgram>

/** The session of one plane that a machine has stored. */
export const storedIn = ({ slots }: Machine, isTesting: boolean): StoredSession | undefined =>
  [...slots.values()].find(({ testing_environment_id }) => (testing_environment_id !== null) === isTesting)
