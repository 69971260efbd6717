/** Load generators: requests at a fixed rate, or from a fixed number of senders. */
import { Agent, request as requestHttp } from "node:http"
import { setTimeout as pause } from "node:timers/promises"

export interface Outgoing {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Buffer
}

export interface Latencies {
  readonly count: number
  readonly failed: number
  /** Milliseconds. */
  readonly p50: number
  readonly p95: number
  readonly p99: number
  readonly max: number
}

const post = (agent: Agent, base: URL, { body, headers, path }: Outgoing): Promise<number> =>
  new Promise((resolve, reject) => {
    const outgoing = requestHttp(
      {
        agent,
        host: base.hostname,
        port: base.port,
        method: "POST",
        path,
        headers: { ...headers, "content-length": Buffer.byteLength(body) }
      },
      (response) => {
        response.resume()
        response.on("end", () => resolve(response.statusCode ?? 0))
        response.on("error", reject)
      }
    )
    outgoing.on("error", reject)
    outgoing.end(body)
  })

const latenciesOf = (latencies: ReadonlyArray<number>, failed: number): Latencies => {
  const sorted = [...latencies].sort((one, other) => one - other)
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
  return {
    count: sorted.length,
    failed,
    p50: at(0.5),
    p95: at(0.95),
    p99: at(0.99),
    max: sorted.at(-1) ?? 0
  }
}

/** Open loop: sends at a fixed rate and measures each request from its due time, so that a stall shows in every request that it delays. */
export const atRate = async (
  target: { readonly url: string; readonly perSecond: number; readonly seconds: number },
  next: () => Outgoing
): Promise<Latencies> => {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 })
  const base = new URL(target.url)
  const latencies: Array<number> = []
  let failed = 0
  const total = target.perSecond * target.seconds
  const interval = 1000 / target.perSecond
  const running: Array<Promise<void>> = []
  const began = performance.now()
  for (let index = 0; index < total; ) {
    const due = began + index * interval
    const untilDue = due - performance.now()
    if (untilDue > 0) {
      await pause(Math.max(1, untilDue))
      continue
    }
    index += 1
    running.push(
      post(agent, base, next()).then(
        (status) => {
          if (status >= 200 && status < 300) latencies.push(performance.now() - due)
          else failed += 1
        },
        () => {
          failed += 1
        }
      )
    )
  }
  await Promise.all(running)
  agent.destroy()
  return latenciesOf(latencies, failed)
}

/** Closed loop: each sender waits for its answer before it sends again. Gives answers per second. */
export const throughput = async (
  target: { readonly url: string; readonly senders: number; readonly seconds: number },
  next: () => Outgoing
): Promise<{ readonly perSecond: number; readonly failed: number }> => {
  const agent = new Agent({ keepAlive: true, maxSockets: target.senders })
  const base = new URL(target.url)
  let answered = 0
  let failed = 0
  const end = performance.now() + target.seconds * 1000
  const sender = async () => {
    while (performance.now() < end) {
      const status = await post(agent, base, next()).catch(() => 0)
      if (status >= 200 && status < 300) answered += 1
      else failed += 1
    }
  }
  const began = performance.now()
  await Promise.all(Array.from({ length: target.senders }, sender))
  agent.destroy()
  return { perSecond: (answered * 1000) / (performance.now() - began), failed }
}
