/** One client on a lane of its own, with a clock and a store that a scenario can read. */
import type { MusicClient, PromiseClientOptions, Result, StoredSession } from "../../../client/index.ts"
import type { Bench, FaultKind, Kit } from "./Bench.ts"

export const check = (fact: boolean, message: string): void => {
  if (!fact) throw new Error(message)
}

export const same = (actual: unknown, expected: unknown, message: string): void => {
  const [found, wanted] = [JSON.stringify(actual), JSON.stringify(expected)]
  check(found === wanted, `${message}: expected ${wanted}, found ${found}`)
}

export const succeeded = <A>(result: Result<A>, message: string): A => {
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

export interface Lane {
  readonly name: string
  readonly client: MusicClient
  /** Moves this client's clocks. */
  readonly pass: (milliseconds: number) => void
  readonly stored: () => Promise<StoredSession | undefined>
  readonly fault: (kind: FaultKind, path: string, times?: number) => Promise<void>
  readonly clear: () => Promise<void>
  readonly login: () => Promise<void>
  /** Another client of the same store, lane and clock, as after a restart of the program. */
  readonly restarted: (options?: Partial<PromiseClientOptions>) => MusicClient
}

export const makeLane = (bench: Bench, kit: Kit, given: Partial<PromiseClientOptions> = {}): Lane => {
  lanes += 1
  const name = `lane-${lanes}-${kit.newIdempotencyKey().slice(0, 8)}`
  let offset = 0
  let slot = ""
  const inner = given.sessionStore ?? (bench.page ? kit.webSessionStore() : kit.memorySessionStore())
  const sessionStore = {
    ...inner,
    load: (asked: string) => {
      slot = asked
      return inner.load(asked)
    }
  }
  const options: PromiseClientOptions = {
    baseUrl: `${bench.base}/${name}`,
    source: "web",
    telemetry: false,
    // Reached only by calls that fail for another reason than a slow machine.
    deadlineMilliseconds: 120_000,
    random: () => 0,
    clock: { now: () => Date.now() + offset, monotonic: () => performance.now() + offset },
    ...given,
    sessionStore
  }
  const client = kit.createMusicClient(options)
  return {
    name,
    client,
    pass: (milliseconds) => {
      offset += milliseconds
    },
    stored: async () => (await inner.load(slot)) as StoredSession | undefined,
    fault: (kind, path, times = 1) =>
      bench.command("fault", { lane: name, path, kind, times, milliseconds: delay }),
    clear: () => bench.command("clear", name),
    login: async () => {
      // A longer timeout than the client under test has, so that a busy machine does not start with many retries.
      const slowClient = kit.createMusicClient({ ...options, attemptMilliseconds: 60_000 })
      succeeded(await slowClient.login(await bench.command("slt")), "login")
    },
    restarted: (more = {}) => kit.createMusicClient({ ...options, ...more })
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
