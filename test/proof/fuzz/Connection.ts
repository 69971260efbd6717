/** One connection of a client that reads strictly and waits for the answers to what it sent. */
import { connect, type Socket } from "node:net"
import { type Answer, parseAnswer } from "./Answers.ts"
import type { Draft } from "./Draft.ts"

export interface Exchanged {
  readonly answers: ReadonlyArray<Answer>
  /** The server ended the connection. */
  readonly ended: boolean
  /** What broke the rules of HTTP, or `hang`. */
  readonly fault: string | undefined
}

/** Seconds without an answer after which a request that arrived completely counts as hanging: its deadline is 25 s. */
const patience = 45
/** The same where the server waits for more bytes or for the end: twice the longest bound of docs/api.md. */
const longPatience = 130
/** Milliseconds before the end is sent after a request that perhaps is complete: its answer is then seen, too. */
const beforeEnd = 50

export class Connection {
  private readonly socket: Socket
  private received: Buffer = Buffer.alloc(0)
  private ended = false
  private wake: () => void = () => {}

  private constructor(socket: Socket) {
    this.socket = socket
    const end = () => {
      this.ended = true
      this.wake()
    }
    socket
      .on("data", (bytes) => {
        this.received = this.received.length === 0 ? bytes : Buffer.concat([this.received, bytes])
        this.wake()
      })
      .on("end", end)
      .on("close", end)
      // A reset after the answer is an end like another.
      .on("error", end)
  }

  static open(port: number): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true })
      socket.once("error", reject)
      socket.once("connect", () => {
        socket.off("error", reject)
        resolve(new Connection(socket))
      })
    })
  }

  get isOpen(): boolean {
    return !this.ended && !this.socket.destroyed
  }

  /**
   * Sends the pieces, and reads until each of the methods has its answer or the server ends the connection. `last`: no request
   * follows, so everything until the end is read. `halfClose`: the client's side ends, too.
   */
  async exchange(
    pieces: ReadonlyArray<Buffer>,
    methods: ReadonlyArray<string>,
    options: Pick<Draft, "halfClose" | "last" | "malformed">
  ): Promise<Exchanged> {
    const answers: Array<Answer> = []
    let fault: string | undefined
    if (this.received.length > 0) return { answers, ended: this.ended, fault: "bytes without a request" }
    let hangs = false
    // Ticks are counted and not the time, so that a machine that is suspended has no hanging requests.
    let waited = 0
    const timer = setInterval(() => {
      waited += 1
      const complete = options.malformed === undefined && answers.length < methods.length
      if (waited < (complete ? patience : longPatience)) return
      hangs = true
      this.wake()
    }, 1_000)
    let finish: NodeJS.Timeout | undefined
    for (const piece of pieces) {
      if (this.socket.writable) this.socket.write(piece)
      if (pieces.length > 1) await new Promise(setImmediate)
    }
    if (options.halfClose) finish = setTimeout(() => this.socket.end(), beforeEnd)
    for (;;) {
      const parsed = parseAnswer(this.received, methods[answers.length] ?? "GET")
      if (parsed.kind === "broken") fault = `the answer has ${parsed.reason}`
      else if (parsed.kind === "answer") {
        answers.push(parsed.answer)
        waited = 0
        this.received = parsed.rest
        continue
      } else if (hangs) fault = "hang"
      else if (answers.length < methods.length || (options.last && !this.ended)) {
        // The answers are there; the client has no more to send.
        if (options.last && answers.length >= methods.length) this.socket.end()
        if (!this.ended) {
          await new Promise<void>((resolve) => {
            this.wake = resolve
          })
          continue
        }
        // What arrived together with the end is read first.
        if (parseAnswer(this.received, methods[answers.length] ?? "GET").kind === "answer") continue
      }
      break
    }
    clearInterval(timer)
    clearTimeout(finish)
    if (fault === undefined && this.received.length > 0) fault = "bytes after the answers"
    return { answers, ended: this.ended, fault }
  }

  close(): void {
    this.socket.destroy()
  }
}
