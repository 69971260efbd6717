/** One client on a lane of its own, with a clock and a store that a scenario can read. */
import type {
  MusicClient,
  MusicError,
  PromiseClientOptions,
  Result,
  StoredSession
} from "../../../client/index.ts"
import type { Bench, FaultKind, Kit } from "./Bench.ts"

export const check = (fact: boolean, message: string): void => {
  if (!fact) throw new Error(message)
}

export const same = (actual: unknown, expected: unknown, message: string): void => {
  const [found, wanted] = [JSON.stringify(actual), JSON.stringify(expected)]
  check(found === wanted, `${message}: expected ${wanted}, found ${found}`)
}

export const succeeded = <A>(result: Result<A, MusicError>, message: string): A => {
  if (!result.ok) throw new Error(`${message}: ${JSON.stringify(result.error)}`)
  return result.value
}

export const failed = <A>(result: Result<A>, message: string) => {
  if (result.ok) throw new Error(`${message}: ${JSON.stringify(result.value)}`)
  return result.error
}

/** Waits until the condition holds, for about as long as the slowest machine needs. */
export const eventually = async (holds: () => Promise<boolean>, message: string): Promise<void> => {
  for (let round = 0; round < 6_000; round += 1) {
    if (await holds()) return
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  check(false, message)
}

let lanes = 0

/** Milliseconds of a delayed request: longer than the attempts of the scenarios with delays, and than a test needs to do something meanwhile. */
const delay = 2_600

/** Reached only by calls that fail for another reason than a slow machine. */
export const patient = { deadlineMilliseconds: 120_000 }

export const makeLane = (bench: Bench, kit: Kit, given: Partial<PromiseClientOptions> = {}) => {
  lanes += 1
  const name = `lane-${lanes}-${kit.newIdempotencyKey().slice(0, 8)}`
  let offset = 0
  let saved = { slot: "", refresh_token: "" }
  const inner = given.sessionStore ?? (bench.page ? kit.webSessionStore() : kit.memorySessionStore())
  const options: PromiseClientOptions = {
    baseUrl: `${bench.base}/${name}`,
    source: "web",
    telemetry: false,
    ...patient,
    random: () => 0,
    clock: { now: () => Date.now() + offset, monotonic: () => performance.now() + offset },
    ...given,
    sessionStore: {
      ...inner,
      save: (slot, session, replaced) => {
        saved = session
        return inner.save(slot, session, replaced)
      }
    }
  }
  const client: MusicClient = kit.createMusicClient(options)
  return {
    name,
    client,
    telemetry: kit.createTelemetry(client),
    /** Moves this client's clocks. */
    pass: (milliseconds: number) => {
      offset += milliseconds
    },
    stored: async () => (await inner.load(saved.slot)) as StoredSession | undefined,
    /** What the identity service knows of the session that was saved last. */
    family: () => bench.command("family", saved.refresh_token),
    fault: (kind: FaultKind, path: string, times = 1) =>
      bench.command("fault", { lane: name, path, kind, times, milliseconds: delay }),
    clear: () => bench.command("clear", name),
    attempts: (path: string) => bench.command("attempts", name, path),
    headers: (path: string, header: string) => bench.command("headers", name, path, header),
    login: async () => {
      // A longer timeout than the client under test has, so that a busy machine does not start with many retries.
      const slowClient = kit.createMusicClient({ ...options, attemptMilliseconds: 60_000 })
      succeeded(await slowClient.login(await bench.command("slt")), "login")
    },
    /** Another client of the same store, lane and clock, as after a restart of the program. */
    restarted: (more: Partial<PromiseClientOptions> = {}): MusicClient =>
      kit.createMusicClient({ ...options, ...more })
  }
}

/** Works through a list, a few at a time. */
export const each = async <A>(items: ReadonlyArray<A>, run: (item: A) => Promise<void>): Promise<void> => {
  const left = [...items]
  const worker = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await run(item)
  }
  await Promise.all(Array.from({ length: 12 }, worker))
}
