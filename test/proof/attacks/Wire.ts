/** Bytes to a server and its answers, without a client library that would mend or refuse what an attack sends. */
import { connect, type Socket } from "node:net"

export interface Target {
  readonly port: number
}

export interface WireAnswer {
  readonly status: number
  /** Names in lower case; values in the order of the lines. */
  readonly headers: ReadonlyMap<string, ReadonlyArray<string>>
  readonly body: string
}

export const header = (answer: WireAnswer | undefined, name: string): string | undefined =>
  answer?.headers.get(name)?.join(", ")

const parseHead = (head: string): Omit<WireAnswer, "body"> => {
  const [status = "", ...lines] = head.split("\r\n")
  const headers = new Map<string, Array<string>>()
  for (const line of lines) {
    const colon = line.indexOf(":")
    const name = line.slice(0, colon).toLowerCase()
    headers.set(name, [...(headers.get(name) ?? []), line.slice(colon + 1).trim()])
  }
  return { status: Number(status.split(" ")[1]), headers }
}

/** The complete answers in these bytes, in order; answers to HEAD are not understood. `rest` is what follows them. */
export const readAnswers = (
  text: string
): { readonly answers: ReadonlyArray<WireAnswer>; readonly rest: string } => {
  const answers: Array<WireAnswer> = []
  let rest = text
  for (;;) {
    const end = rest.indexOf("\r\n\r\n")
    if (!rest.startsWith("HTTP/1.1 ") || end === -1) return { answers, rest }
    const head = parseHead(rest.slice(0, end))
    if (head.status < 200 && head.status !== 101) {
      // An interim answer; another one follows.
      rest = rest.slice(end + 4)
      continue
    }
    const length = Number(head.headers.get("content-length")?.[0] ?? 0)
    if (rest.length < end + 4 + length) return { answers, rest }
    answers.push({ ...head, body: rest.slice(end + 4, end + 4 + length) })
    rest = rest.slice(end + 4 + length)
  }
}

export interface Line {
  readonly socket: Socket
  /** What arrived so far, one character a byte. */
  readonly received: () => string
  readonly isClosed: () => boolean
  /** Whether the condition came to hold before the connection closed or the milliseconds ended. */
  readonly until: (holds: () => boolean, millis?: number) => Promise<boolean>
  readonly closed: (millis?: number) => Promise<boolean>
}

const hang = 60_000

/** Opens a connection from a loopback address; resolves when it is open or refused. */
export const open = (
  { port }: Target,
  { from = "127.0.0.1", reading = true }: { readonly from?: string; readonly reading?: boolean } = {}
): Promise<Line> =>
  new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", localAddress: from })
    let received = ""
    let closed = false
    const waiting = new Set<() => void>()
    const wake = () => {
      for (const check of [...waiting]) check()
    }
    const until = (holds: () => boolean, millis = hang) =>
      new Promise<boolean>((done) => {
        const check = () => {
          if (!holds() && !closed && timer !== undefined) return
          clearTimeout(timer)
          waiting.delete(check)
          done(holds())
        }
        let timer: NodeJS.Timeout | undefined = setTimeout(() => {
          timer = undefined
          check()
        }, millis)
        waiting.add(check)
        check()
      })
    const line: Line = {
      socket,
      received: () => received,
      isClosed: () => closed,
      until,
      closed: (millis) => until(() => closed, millis)
    }
    socket.setNoDelay(true)
    if (reading)
      socket.on("data", (part: Buffer) => {
        received += part.toString("latin1")
        wake()
      })
    socket.on("error", () => undefined)
    socket.once("connect", () => resolve(line))
    socket.once("close", () => {
      closed = true
      wake()
      resolve(line)
    })
  })

export interface Asked {
  readonly method?: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
  readonly from?: string
  readonly patience?: number
}

/** One well-formed request on a connection of its own; undefined without a complete answer. */
export const ask = async (
  target: Target,
  { body, from, headers = {}, method, path, patience }: Asked
): Promise<WireAnswer | undefined> => {
  const line = await open(target, from === undefined ? {} : { from })
  const bytes = body === undefined ? undefined : Buffer.from(body)
  const lines = Object.entries({
    Host: "music.example",
    ...(bytes === undefined
      ? {}
      : { "Content-Type": "application/json", "Content-Length": String(bytes.length) }),
    ...headers
  })
  const head = [
    `${method ?? (bytes === undefined ? "GET" : "POST")} ${path} HTTP/1.1`,
    ...lines.map(([name, value]) => `${name}: ${value}`)
  ]
  line.socket.write(`${head.join("\r\n")}\r\n\r\n`, "latin1")
  if (bytes !== undefined) line.socket.write(bytes)
  await line.until(() => readAnswers(line.received()).answers.length > 0, patience)
  line.socket.destroy()
  return readAnswers(line.received()).answers[0]
}

/** An id by which the last answer on a connection is known. */
const sentinel = "sentinel-0123456789"

const last = `GET /healthz HTTP/1.1\r\nHost: music.example\r\nX-Request-Id: ${sentinel}\r\nConnection: close\r\n\r\n`

/**
 * Sends bytes, and after their first answer one more request that ends the connection: all answers before that one belong to the
 * bytes. `isClosed` says whether the bytes ended the connection,
 * `hangs` whether the server did not end it at all. `ending`: the last request follows at once, and then the end of
 * the client's bytes, for bytes that may be no complete request.
 */
export const exchange = async (
  target: Target,
  bytes: string,
  from: string,
  { ending = false } = {}
): Promise<{
  readonly answers: ReadonlyArray<WireAnswer>
  readonly isClosed: boolean
  readonly hangs: boolean
  readonly rest: string
}> => {
  const line = await open(target, { from })
  if (ending) line.socket.end(bytes + last, "latin1")
  else {
    line.socket.write(bytes, "latin1")
    await line.until(() => readAnswers(line.received()).answers.length > 0)
    if (!line.isClosed()) line.socket.write(last)
  }
  const hangs = !(await line.closed())
  line.socket.destroy()
  const { answers, rest } = readAnswers(line.received())
  const own = answers.filter((answer) => header(answer, "x-request-id") !== sentinel)
  return { answers: own, isClosed: !hangs && own.length === answers.length, hangs, rest }
}
