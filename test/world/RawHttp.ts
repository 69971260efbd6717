/** HTTP/1.1 by bytes: a strict parser of answers (RFC 9112; every deviation is a fault of the server), and a connection that sends anything. */
import { connect } from "node:net"
import { Effect } from "effect"
import type { Answer } from "./Driver.ts"

export interface RawAnswer {
  readonly status: number
  /** Names in lower case, in order. */
  readonly headers: ReadonlyArray<readonly [string, string]>
  readonly body: Buffer
  readonly bytes: Buffer
}

type Parsed =
  | { readonly kind: "answer"; readonly answer: RawAnswer; readonly rest: Buffer }
  | { readonly kind: "incomplete" }
  | { readonly kind: "broken"; readonly reason: string }

const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const fieldValue = /^[\x20-\x7e\t]*$/
const interim = "HTTP/1.1 100 Continue\r\n\r\n"
const longestHead = 65_536

const broken = (reason: string): Parsed => ({ kind: "broken", reason })

export const headersOf = ({ headers }: Pick<RawAnswer, "headers">, name: string): ReadonlyArray<string> =>
  headers.filter(([each]) => each === name).map(([, value]) => value)

/** Reads the first answer after `100 Continue`; an answer to HEAD has no body. */
const parseAnswer = (received: Buffer, method = "GET"): Parsed => {
  const bytes =
    received.toString("latin1", 0, interim.length) === interim ? received.subarray(interim.length) : received
  const end = bytes.indexOf("\r\n\r\n")
  if (end === -1) return bytes.length > longestHead ? broken("a head without an end") : { kind: "incomplete" }
  const [statusLine = "", ...lines] = bytes.subarray(0, end).toString("latin1").split("\r\n")
  const status = Number(/^HTTP\/1\.1 (\d{3}) [\x20-\x7e]*$/.exec(statusLine)?.[1])
  if (Number.isNaN(status)) return broken(`the status line ${JSON.stringify(statusLine.slice(0, 80))}`)
  const headers: Array<readonly [string, string]> = []
  for (const line of lines) {
    const colon = line.indexOf(":")
    const name = line.slice(0, colon)
    const value = line.slice(colon + 1).trim()
    if (colon === -1 || !token.test(name) || !fieldValue.test(value))
      return broken(`the header line ${JSON.stringify(line.slice(0, 80))}`)
    headers.push([name.toLowerCase(), value])
  }
  const lengths = headersOf({ headers }, "content-length")
  const isBodiless = method === "HEAD" || status === 204 || status === 304
  if (headersOf({ headers }, "transfer-encoding").length > 0) return broken("a transfer coding")
  if (lengths.length > 1) return broken("two lengths")
  if (lengths.length === 0 && !isBodiless) return broken("no length")
  if (status === 204 && lengths.length > 0) return broken("a length with 204")
  if (lengths.some((length) => !/^\d+$/.test(length))) return broken("the length")
  const whole = end + 4 + (isBodiless ? 0 : Number(lengths[0]))
  if (bytes.length < whole) return { kind: "incomplete" }
  return {
    kind: "answer",
    answer: { status, headers, body: bytes.subarray(end + 4, whole), bytes: bytes.subarray(0, whole) },
    rest: bytes.subarray(whole)
  }
}

/** Every complete answer of the bytes. */
const parseAnswers = (received: Buffer): ReadonlyArray<RawAnswer> => {
  const parsed = parseAnswer(received)
  return parsed.kind === "answer" ? [parsed.answer, ...parseAnswers(parsed.rest)] : []
}

interface Exchange {
  /** Written one after the other, each in a turn of its own. */
  readonly pieces: ReadonlyArray<Buffer>
  /** One for each expected answer. */
  readonly methods: ReadonlyArray<string>
  /** No request follows, so everything until the end is read. */
  readonly last?: boolean
  /** The end of the bytes is the end of the client's side. */
  readonly halfClose?: boolean
  /** The server perhaps waits for more bytes. */
  readonly unfinished?: boolean
}

/** Seconds without an answer after which a request that arrived completely counts as hanging: its deadline is 25 s. */
const patience = 45
/** The same where the server waits for more bytes or for the end: twice the longest bound of docs/api.md. */
const longPatience = 130
/** Milliseconds before the end is sent after a request that perhaps is complete: its answer is then seen, too. */
const beforeEnd = 50

/** A connection of a client that reads strictly, keeps what it receives and sends any bytes. Without `isReading` it takes nothing. */
export const connectRaw = (
  port: number,
  { allowHalfOpen = true, from = "127.0.0.1", isReading = true } = {}
) => {
  // `from`: a loopback address of the client's own.
  const socket = connect({ port, host: "127.0.0.1", localAddress: from, allowHalfOpen, noDelay: true })
  let received: Buffer = Buffer.alloc(0)
  let isOver = false
  let wake = () => {}
  const end = () => {
    isOver = true
    wake()
  }
  // A reset after the answer is an end like another.
  socket.on("end", end).on("close", end).on("error", end)
  if (isReading)
    socket.on("data", (bytes) => {
      received = received.length === 0 ? bytes : Buffer.concat([received, bytes])
      wake()
    })

  /** Sends the pieces, and reads until each of the methods has its answer or the server ends the connection. */
  const exchange = async (given: Exchange) => {
    const { halfClose = false, last = false, methods, pieces, unfinished = false } = given
    const answers: Array<RawAnswer> = []
    /** What broke the rules of HTTP, or `hang`. */
    let fault: string | undefined
    if (received.length > 0) return { answers, fault: "bytes without a request" }
    let hangs = false
    // Ticks are counted and not the time, so that a machine that is suspended has no hanging requests.
    let waited = 0
    const timer = setInterval(() => {
      waited += 1
      if (waited < (!unfinished && answers.length < methods.length ? patience : longPatience)) return
      hangs = true
      wake()
    }, 1_000)
    for (const piece of pieces) {
      if (socket.writable) socket.write(piece)
      if (pieces.length > 1) await new Promise(setImmediate)
    }
    const finish = halfClose ? setTimeout(() => socket.end(), beforeEnd) : undefined
    for (;;) {
      const parsed = parseAnswer(received, methods[answers.length])
      if (parsed.kind === "answer") {
        answers.push(parsed.answer)
        waited = 0
        received = parsed.rest
        continue
      }
      if (parsed.kind === "broken") fault = `the answer has ${parsed.reason}`
      else if (hangs) fault = "hang"
      else if (!isOver && (last || answers.length < methods.length)) {
        // The answers are there; the client has no more to send.
        if (last && answers.length >= methods.length) socket.end()
        await new Promise<void>((resolve) => {
          wake = resolve
        })
        continue
      }
      break
    }
    clearInterval(timer)
    clearTimeout(finish)
    if (fault === undefined && received.length > 0) fault = "bytes after the answers"
    return { answers, fault }
  }

  return {
    socket,
    exchange,
    text: () => received.toString(),
    answers: () => parseAnswers(received),
    answer: () => answerOf(parseAnswers(received)[0]),
    answered: () => received.includes("\r\n\r\n"),
    closed: () => isOver || socket.destroyed,
    write: (more: string) => socket.write(more),
    close: () => socket.destroy()
  }
}

export type RawConnection = ReturnType<typeof connectRaw>

/** The same once it is connected, or has failed. */
export const openRaw = async (...given: Parameters<typeof connectRaw>): Promise<RawConnection> => {
  const connection = connectRaw(...given)
  await new Promise((resolve) => connection.socket.once("connect", resolve).once("close", resolve))
  return connection
}

/** The answer as tests read it; an error that says `fault` when there is none. */
export const answerOf = (answer: RawAnswer | undefined, fault = "no answer"): Answer => {
  if (answer === undefined) throw new Error(fault)
  return { status: answer.status, headers: Object.fromEntries(answer.headers), text: answer.body.toString() }
}

/** A connection for bytes of the test's choice. */
export const openPeer = (port: number, text: string | Uint8Array, allowHalfOpen = true) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const peer = connectRaw(port, { allowHalfOpen })
      peer.socket.write(text)
      return peer
    }),
    ({ close }) => Effect.sync(close)
  )
