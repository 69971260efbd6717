/** Sends requests with `fetch`. */
import type { PromiseClientOptions } from "./Options.ts"
import type { ErrorOf } from "./Types.ts"
import { ignore, isText } from "./Values.ts"
import { findReason } from "./failures/ErrorTable.ts"
import { reasonedFailure } from "./failures/Failures.ts"
import { causesOf, memberOf } from "./failures/StoreFailures.ts"

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

type Fetch = NonNullable<PromiseClientOptions["fetch"]>

/** Milliseconds for finding out whether the server is there at all. */
const probeMilliseconds = 3_000
/** Milliseconds between two such probes. */
const probePause = 10_000

/** Reads a body up to the bound. */
const readAnswer = async (response: Response): Promise<WireAnswer | BrokenExchange> => {
  const headers = Object.fromEntries(
    [...response.headers].map(([name, value]) => [name.toLowerCase(), value])
  )
  const head = { status: response.status, headers }
  let body = ""
  try {
    // An own `fetch` may return less than a whole `Response`.
    if (typeof response.body?.getReader !== "function") return { ...head, body: await response.text() }
    const reader = response.body.getReader()
    const decoder = new TextDecoder()
    let bytes = 0
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return { ...head, body: body + decoder.decode() }
      bytes += value.byteLength
      body += decoder.decode(value, { stream: true })
      if (bytes <= answerBytes) continue
      // Not awaited: the server may never end the body.
      reader.cancel().catch(ignore)
      return broken(undefined, { answer: { ...head, body }, tooLarge: true })
    }
  } catch (cause) {
    return broken(cause, { answer: { ...head, body } })
  }
}

// The same source compiles without DOM types.
const page = globalThis as unknown as {
  readonly document?: unknown
  readonly location?: { readonly origin?: string }
}

/** Follows redirects: a request without CORS may do nothing else. */
const probeInit = { credentials: "omit", cache: "no-store" } as const

/**
 * Whether a page's request failed because the server does not allow its origin. A browser does not distinguish that from a
 * lost connection; but then a plain GET is answered, and only its answer cannot be read.
 */
const isOriginRefused = async (fetch: Fetch, { baseUrl, url }: WireRequest): Promise<boolean> => {
  const origin = page.document === undefined ? undefined : page.location?.origin
  if (origin === undefined || origin === new URL(url).origin) return false
  // All calls of the API share one rule; the probes of health have none.
  const probed = url.startsWith(`${baseUrl}/api/`) ? `${baseUrl}/api/v1/version` : url
  const isAnswered = (mode: "cors" | "no-cors") =>
    fetch(probed, { ...probeInit, mode, signal: AbortSignal.timeout(probeMilliseconds) }).then(
      () => true,
      () => false
    )
  return !(await isAnswered("cors")) && (await isAnswered("no-cors"))
}

/** A `TypeError` of the platform's `fetch` in Node has a cause, and a page's has no cause: any other is a mistake in the program's own. */
const isOwnMistake = (cause: unknown): boolean =>
  cause instanceof TypeError && cause.cause === undefined && page.document === undefined

/** `given` replaces the global `fetch`. */
export const fetchTransport = (given: Fetch | undefined): Transport => {
  // Once an answer could be read, the origin is allowed.
  let allowed = false
  let probe: { readonly at: number; readonly answer: Promise<boolean> } | undefined
  /** One probe for all calls that fail at about the same time. */
  const askOnce = (fetch: Fetch, request: WireRequest): Promise<boolean> => {
    const now = performance.now()
    if (probe === undefined || now - probe.at >= probePause)
      probe = { at: now, answer: isOriginRefused(fetch, request) }
    return probe.answer
  }
  return {
    send: async (request, signal) => {
      const { body, headers, keepalive, method, url } = request
      const fetch = given ?? globalThis.fetch
      const init = { method, headers, signal, ...requestInit, ...(keepalive ? { keepalive } : {}) }
      let response: Response
      try {
        response = await fetch(url, body === undefined ? init : { ...init, body })
      } catch (cause) {
        const originRefused = !allowed && (await askOnce(fetch, request))
        return broken(cause, { originRefused, isOwnFault: given !== undefined && isOwnMistake(cause) })
      }
      const answer = await readAnswer(response)
      allowed = true
      return answer
    }
  }
}

/** Ports that `fetch` refuses (fetch.spec.whatwg.org, "Port blocking"). */
const blockedPorts = new Set(
  `1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 119 123 135 137 139 143 161 179 389 427 465
  512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665
  6666 6667 6668 6669 6679 6697 10080`.split(/\s+/)
)

/** The failure of a request without an answer. The cause is an error of `fetch` or of an `HttpClient`. */
export const connectionFailure = (
  { cause, isOwnFault, originRefused }: BrokenExchange,
  url: string
): ErrorOf<"transport_failed"> => {
  const { host, port } = new URL(url)
  const errors = causesOf(cause)
  const textsOf = (member: string) => errors.map((error) => memberOf(error, member)).filter(isText)
  const codes = textsOf("code")
  // The parser of undici 7 has no code. A program that loads it makes the platform's `fetch` use it.
  const known = [...codes, ...textsOf("name")].find(
    (text) => findReason("transport_failed", text) !== undefined
  )
  const isBlocked = codes.length === 0 && blockedPorts.has(port)
  const otherwise = isOwnFault || isBlocked ? "not_sent" : "network"
  const found = known === undefined ? undefined : findReason("transport_failed", known)
  return reasonedFailure(
    "transport_failed",
    originRefused ? "cors" : (found ?? otherwise),
    { cause },
    { place: host, code: known ?? codes[0] }
  )
}
