/** Instances of the real backend with other limits and crash points, as seen from their parent, and clients that insist on an answer. */
import { setTimeout as pause } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import type { DeliveryLimits } from "../../src/layers/delivery/Worker.ts"
import { type Answer, bodyOf, type Sent } from "../world/Driver.ts"
import {
  bundle,
  type Environment,
  environmentOf,
  root,
  type Simulators,
  startBundle,
  urlOf
} from "../world/Fleet.ts"

/** Bundles the program of an instance. */
export const bundleInstance = () =>
  bundle(fileURLToPath(new URL("./Instance.ts", import.meta.url)), root, true)

export interface Death {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** Options of an instance that are not settings. */
export interface InstanceOptions {
  readonly crashAt?: string
  /** Of the workers. */
  readonly limits?: Partial<DeliveryLimits>
}

/** Limits under which recovery takes a second or two. A lease is longer than the pauses of a busy machine. */
export const quick: InstanceOptions = {
  limits: {
    searchDelays: [50, 100, 200],
    lease: 1_500,
    telemetryLease: 3_000,
    telemetryPollInterval: 200,
    batchDelay: 50,
    firstBackoff: 50,
    probeInterval: 300,
    writeSpacing: 20,
    hourlyWrites: 100_000,
    sweepDelay: 1_000
  }
}

export const startInstance = (
  file: string,
  world: Simulators,
  environment: Environment,
  options: InstanceOptions
) => {
  const unlimited = { ...environmentOf(world), MUSIC_RATE_LIMIT: "off", ...environment }
  const given = { DURABILITY_OPTIONS: JSON.stringify(options) }
  const running = startBundle(file, { ...unlimited, ...given })
  const { child, ended, output } = running
  return {
    /** Its URL; undefined when it died before it listened. */
    ready: urlOf(running).catch(() => undefined),
    died: ended,
    isDead: () => child.exitCode !== null || child.signalCode !== null,
    /** The last part of its output. */
    log: () => output().slice(-1_500),
    kill: () => child.kill("SIGKILL")
  }
}

export type Instance = ReturnType<typeof startInstance>

/** Repeats a request under the same key until the answer has one of these statuses. Any other final answer rejects. */
export type Insist = (request: Sent | (() => Sent), ...statuses: ReadonlyArray<number>) => Promise<Answer>

/** Milliseconds of one attempt. */
const attemptLimit = 12_000

const attempt = async (base: string, { body, headers = {}, method, path }: Sent) => {
  try {
    const response = await fetch(`${base}${path}`, {
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers,
      signal: AbortSignal.timeout(attemptLimit),
      ...(body === undefined ? {} : { body })
    })
    return { status: response.status, headers: {}, text: await response.text() }
  } catch {
    return undefined
  }
}

const isRetryable = (answer: Answer): boolean =>
  answer.status >= 500 ||
  answer.status === 429 ||
  (answer.status === 409 && JSON.stringify(bodyOf(answer)).includes('"retryable":true'))

/** `target`: the base URL of the next attempt, undefined while no instance listens. */
export const insistAt =
  (target: () => string | undefined, timeoutMillis: number): Insist =>
  async (request, ...statuses) => {
    const end = performance.now() + timeoutMillis
    let last: Answer | undefined
    while (performance.now() < end) {
      const asked = typeof request === "function" ? request() : request
      const base = target()
      last = base === undefined ? undefined : await attempt(base, asked)
      if (last !== undefined && statuses.includes(last.status)) return last
      if (last !== undefined && !isRetryable(last))
        throw new Error(`${asked.path} answered ${last.status} ${last.text}`)
      await pause(20 + Math.random() * 40)
    }
    throw new Error(`not acknowledged in ${timeoutMillis} ms; last ${last?.status} ${last?.text}`)
  }

/** Work that is begun now and must have succeeded in the end. */
export const makeWork = () => {
  const begun: Array<Promise<unknown>> = []
  return {
    begin: (work: Promise<unknown>): void => {
      begun.push(work)
      // Awaited at the end.
      work.catch(() => undefined)
    },
    failures: async (): Promise<ReadonlyArray<string>> =>
      (await Promise.allSettled(begun)).flatMap((result) =>
        result.status === "rejected" ? [String(result.reason)] : []
      )
  }
}
