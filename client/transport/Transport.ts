/** The port through which requests are sent: `fetch` for the promise client, the program's `HttpClient` for the Effect client. */

/** Bytes of an answer; the client reads no further. */
export const answerBytes = 4 * 1024 * 1024

/** No cookies, no cache, no redirects: a session is sent to its address only. In a browser a redirect has status 0. */
export const requestInit = { redirect: "manual", credentials: "omit", cache: "no-store" } as const

export interface WireRequest {
  readonly method: string
  /** Address of the service, without a slash at its end. */
  readonly baseUrl: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  /** The request may outlive its page. */
  readonly keepalive: boolean
}

export interface WireHead {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>
}

export interface WireAnswer extends WireHead {
  readonly body: string
}

/** An exchange without a complete answer. */
export interface BrokenExchange {
  /** What arrived of the answer before the connection broke. */
  readonly answer: WireAnswer | undefined
  /** The body is longer than `answerBytes`. */
  readonly tooLarge: boolean
  /** What the platform reported. */
  readonly cause: unknown
  /** The server answers, but not to this page: its origin is not allowed. */
  readonly originRefused: boolean
  /** The program's own `fetch` failed before it sent anything. */
  readonly isOwnFault: boolean
}

export const broken = (cause: unknown, facts: Partial<BrokenExchange> = {}): BrokenExchange => ({
  answer: undefined,
  tooLarge: false,
  originRefused: false,
  isOwnFault: false,
  cause,
  ...facts
})

export interface Transport {
  /** Sends one request as `requestInit` demands. */
  readonly send: (request: WireRequest, signal: AbortSignal) => Promise<WireAnswer | BrokenExchange>
}
