/** Bytes to a server and its answers, without a client library that would mend or refuse what an attack sends. */
import { connect, type Socket } from "node:net"
import { parseAnswers, type RawAnswer, RawConnection } from "../../world/RawHttp.ts"

export interface Target {
  readonly port: number
}

export const textOf = (answer: RawAnswer | undefined): string => answer?.body.toString("utf8") ?? ""

export interface Line {
  readonly socket: Socket
  /** The complete answers that arrived so far. */
  readonly read: () => ReadonlyArray<RawAnswer>
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
    const read = () => parseAnswers(Buffer.concat(parts))
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
      answered: (millis) => until(() => read().length > 0, millis),
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

interface Asked {
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly from: string
}

/** One well-formed request on a connection of its own; undefined without a complete answer. */
export const ask = async ({ port }: Target, asked: Asked): Promise<RawAnswer | undefined> => {
  const { body, from, headers, path } = asked
  const connection = await RawConnection.open(port, from).catch(() => undefined)
  const lines = Object.entries({
    Host: "music.example",
    ...(body === undefined ? {} : { "Content-Type": "application/json", "Content-Length": body.length }),
    ...headers
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  const method = body === undefined ? "GET" : "POST"
  const text = `${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n${body ?? ""}`
  const exchanged = await connection?.exchange({ pieces: [Buffer.from(text, "latin1")], methods: [method] })
  connection?.close()
  return exchanged?.answers[0]
}
