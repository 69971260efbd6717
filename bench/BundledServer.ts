/** The production bundle as a separate process, for the programs that measure it. */
import { freePort, start, type Running } from "../test/world/Fleet.ts"

export interface BundledServer {
  readonly url: string
  /** The listener of `/metrics`. */
  readonly adminUrl: string
  readonly pid: number
  readonly output: () => string
  readonly stop: () => Promise<void>
}

const startWithin = 30_000

/** Starts the bundle and waits until it is ready. */
export const startServer = async (
  file: string,
  environment: Readonly<Record<string, string>>,
  nodeOptions: ReadonlyArray<string> = []
): Promise<BundledServer> => {
  const port = await freePort()
  const adminPort = await freePort()
  const server: Running = start(process.execPath, [...nodeOptions, file], {
    MUSIC_RATE_LIMIT: "off",
    MUSIC_LOG_LEVEL: "error",
    MUSIC_ADMIN_BIND: `127.0.0.1:${adminPort}`,
    MUSIC_IAM_CALLS_PER_MINUTE: "10000",
    MUSIC_REPORTS_MEGABYTES: "100000",
    MUSIC_TELEMETRY_SPOOL_MEGABYTES: "10000",
    ...environment,
    MUSIC_BIND: `127.0.0.1:${port}`
  })
  const url = `http://127.0.0.1:${port}`
  const deadline = performance.now() + startWithin
  const isReady = () =>
    fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false
    )
  while (!(await isReady())) {
    if (server.child.exitCode !== null || performance.now() > deadline)
      throw new Error(`the server did not become ready:\n${server.output()}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return {
    url,
    adminUrl: `http://127.0.0.1:${adminPort}`,
    pid: server.child.pid ?? 0,
    output: server.output,
    stop: async () => {
      server.child.kill("SIGTERM")
      await server.ended
    }
  }
}
