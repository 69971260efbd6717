/** Bytes to a server and its answers, without a client library that would mend or refuse what an attack sends. */
import { connect, type Socket } from "node:net"
import { headersOf, parseAnswers, type RawAnswer } from "../../world/RawHttp.ts"

export interface Target {
  readonly port: number
}

/** The value of a header; those of a repeated one are joined. */
export const header = (answer: RawAnswer | undefined, name: string): string | undefined => {
  const values = answer === undefined ? [] : headersOf(answer, name)
  return values.length === 0 ? undefined : values.join(", ")
}

export const textOf = (answer: RawAnswer | undefined): string => answer?.body.toString("utf8") ?? ""

export interface Line {
  readonly socket: Socket
  /** The complete answers that arrived so far, and what is wrong with the bytes behind them. */
  readonly read: () => { readonly answers: ReadonlyArray<RawAnswer>; readonly faults: ReadonlyArray<string> }
  readonly isClosed: () => boolean
  /** Whether the condition came to hold before the connection closed or the milliseconds ended. */
  readonly until: (holds: () => boolean, millis?: number) => Promise<boolean>
  readonly answered: (millis?: number) => Promise<boolean>
  readonly closed: (millis?: number) => Promise<boolean>
}

const hang = 60_000

/** Opens a connection from a loopback address; resolves when it is open or refused. */
export const open = (
  { port }: Target,
  { from = "127.0.0.1", reading = true }: { readonly from?: string; readonly reading?: boolean } = {}
): Promise<Line> =>
  new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", localAddress: from, noDelay: true })
    const parts: Array<Buffer> = []
    let isClosed = false
    const waiting = new Set<() => void>()
    const wake = () => {
      for (const check of [...waiting]) check()
    }
    const read = () => {
      const { answers, end, rest } = parseAnswers(Buffer.concat(parts))
      const faults = end.kind === "broken" ? [end.reason] : rest.length > 0 ? ["half an answer"] : []
      return { answers, faults }
    }
    const until = (holds: () => boolean, millis = hang) =>
      new Promise<boolean>((done) => {
        let isLate = false
        const check = () => {
          if (!holds() && !isClosed && !isLate) return
          clearTimeout(timer)
          waiting.delete(check)
          done(holds())
        }
        const timer = setTimeout(() => {
          isLate = true
          check()
        }, millis)
        waiting.add(check)
        check()
      })
    const line: Line = {
      socket,
      read,
      isClosed: () => isClosed,
      until,
      answered: (millis) => until(() => read().answers.length > 0, millis),
      closed: (millis) => until(() => isClosed, millis)
    }
    if (reading)
      socket.on("data", (part: Buffer) => {
        parts.push(part)
        wake()
      })
    socket.on("error", () => undefined)
    socket.once("connect", () => resolve(line))
    socket.once("close", () => {
      isClosed = true
      wake()
      resolve(line)
    })
  })

/** One well-formed request on a connection of its own; undefined without a complete answer. */
export const ask = async (
  target: Target,
  {
    body,
    from = "127.0.0.1",
    headers = {},
    patience,
    path
  }: {
    readonly path: string
    readonly headers?: Readonly<Record<string, string>>
    readonly body?: string
    readonly from?: string
    readonly patience?: number
  }
): Promise<RawAnswer | undefined> => {
  const line = await open(target, { from })
  const lines = Object.entries({
    Host: "music.example",
    ...(body === undefined ? {} : { "Content-Type": "application/json", "Content-Length": body.length }),
    ...headers
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  const method = body === undefined ? "GET" : "POST"
  line.socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n${body ?? ""}`, "latin1")
  await line.answered(patience)
  line.socket.destroy()
  return line.read().answers[0]
}

/** An id by which the last answer on a connection is known. */
const sentinel = "sentinel-0123456789"
const last = `GET /healthz HTTP/1.1\r\nHost: music.example\r\nX-Request-Id: ${sentinel}\r\nConnection: close\r\n\r\n`

/**
 * Sends bytes, and after their first answer one more request that ends the connection: all answers before that one belong to the
 * bytes. `isClosed` says whether the bytes ended the connection.
 */
export const exchange = async (target: Target, bytes: string, from: string) => {
  const line = await open(target, { from })
  line.socket.write(bytes, "latin1")
  await line.answered()
  if (!line.isClosed()) line.socket.write(last)
  const isEnded = await line.closed()
  line.socket.destroy()
  const { answers, faults } = line.read()
  const own = answers.filter((answer) => header(answer, "x-request-id") !== sentinel)
  return {
    answers: own,
    isClosed: isEnded && own.length === answers.length,
    faults: [...faults, ...(isEnded ? [] : ["the exchange does not end"])]
  }
}
