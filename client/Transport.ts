/** Sends requests with `fetch`. */
import type { ConnectionReason, ErrorOf, MusicError } from "./Types.ts"
import { onAbort } from "./calls/Time.ts"
import { ignore, isGiven, isText, present } from "./Values.ts"
import { reasonedFailure, unexpectedAnswer } from "./failures/Failures.ts"
import type { PromiseClientOptions } from "./Options.ts"
import { findReason } from "./failures/ErrorTable.ts"
import { causesOf, memberOf } from "./failures/StoreFailures.ts"

/** Bytes of an answer; the client reads no further. */
const answerBytes = 4 * 1024 * 1024

/** No cookies, no cache, no redirects: a session is sent to its address only. In a browser a redirect has status 0. */
const requestInit = { redirect: "manual", credentials: "omit", cache: "no-store" } as const

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

/** An exchange without a complete answer: what arrived of it, and why it ended. */
interface Broken {
  readonly answer?: WireAnswer
  readonly failure: MusicError
}

/** Sends one request as `requestInit` demands. Never rejects. */
export type Send = (request: WireRequest, signal: AbortSignal) => Promise<WireAnswer | Broken>

export type Fetch = NonNullable<PromiseClientOptions["fetch"]>

/** Milliseconds for finding out whether the server is there at all. */
const probeMilliseconds = 3_000
/** Milliseconds between two such probes. */
const probePause = 10_000

/** Reads a body up to the bound. */
const readAnswer = async (response: Response, signal: AbortSignal): Promise<WireAnswer | Broken> => {
  const { status } = response
  const headers = Object.fromEntries(
    [...response.headers].map(([name, value]) => [name.toLowerCase(), value])
  )
  let body = ""
  const brokenOff = (reason: "too_large" | "incomplete", cause?: unknown): Broken => ({
    answer: { status, headers, body },
    failure: unexpectedAnswer(status, reason, cause)
  })
  try {
    // An own `fetch` may return less than a whole `Response`.
    if (typeof response.body?.getReader !== "function")
      return { status, headers, body: await response.text() }
    const reader = response.body.getReader()
    // Not awaited: the server may never end the body.
    const cancel = () => void reader.cancel().catch(ignore)
    onAbort(signal, cancel)
    const decoder = new TextDecoder()
    for (let bytes = 0; bytes <= answerBytes; ) {
      const { done, value } = await reader.read()
      body += decoder.decode(value, { stream: !done })
      if (done) return { status, headers, body }
      bytes += value.byteLength
    }
    cancel()
    return brokenOff("too_large")
  } catch (cause) {
    return brokenOff("incomplete", cause)
  }
}

// The same source compiles without DOM types.
const page = globalThis as unknown as { readonly location?: { readonly origin?: string } }

/** Follows redirects: a request without CORS may do nothing else. */
const probeInit = { credentials: "omit", cache: "no-store" } as const

/**
 * Whether a page's request failed because the server does not allow its origin. A browser does not distinguish that from a
 * lost connection; but then a plain GET is answered, and only its answer cannot be read.
 */
const isOriginRefused = async (fetch: Fetch, { baseUrl, url }: WireRequest): Promise<boolean> => {
  const origin = page.location?.origin
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

/** A `TypeError` of the platform's `fetch` in Node has a cause, and a page's or worker's has none: any other is a mistake in the program's own. */
const isOwnMistake = (cause: unknown): boolean =>
  cause instanceof TypeError && cause.cause === undefined && page.location === undefined

/** Ports that `fetch` refuses (fetch.spec.whatwg.org, "Port blocking"). */
const blockedPorts = new Set(
  `1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 119 123 135 137 139 143 161 179 389 427 465
  512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665
  6666 6667 6668 6669 6679 6697 10080`.split(/\s+/)
)

/** The failure of a request without an answer. The cause is an error of `fetch`; without a code of it, `likely` is the reason. */
const connectionFailure = (
  cause: unknown,
  url: string,
  likely: ConnectionReason | undefined
): ErrorOf<"transport_failed"> => {
  const { host, port } = new URL(url)
  const errors = causesOf(cause)
  const textsOf = (member: string) => errors.map((error) => memberOf(error, member)).filter(isText)
  const codes = textsOf("code")
  // The parser of undici 7 has no code. A program that loads it makes the platform's `fetch` use it.
  const [known] = [...codes, ...textsOf("name")].flatMap((code) => {
    const found = findReason("transport_failed", code)
    return found === undefined ? [] : [{ code, found }]
  })
  const isBlocked = codes.length === 0 && blockedPorts.has(port)
  const reason = known?.found ?? likely ?? (isBlocked ? "not_sent" : "network")
  const about = { place: host, code: known?.code ?? codes[0] }
  return reasonedFailure("transport_failed", reason, { cause }, about)
}

/** `given` replaces the global `fetch`. `isOwn`: it is the program's own, which may have mistakes. */
export const makeSend = (given: Fetch | null | undefined, isOwn = isGiven(given)): Send => {
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
  return async (request, signal) => {
    const { body, headers, keepalive, method, url } = request
    const fetch = given ?? globalThis.fetch
    const init = {
      method,
      headers,
      signal,
      ...requestInit,
      ...present({ body }),
      ...(keepalive && { keepalive })
    }
    let isBack = false
    try {
      const response = await fetch(url, init)
      isBack = true
      const arrived = await readAnswer(response, signal)
      allowed = true
      return arrived
    } catch (cause) {
      // A `fetch` of the program's own may return anything.
      if (isBack) return { failure: connectionFailure(cause, url, "not_sent") }
      const isRefused = !allowed && (await askOnce(fetch, request))
      const isOwnFault = isOwn && isOwnMistake(cause)
      return {
        failure: connectionFailure(cause, url, isRefused ? "cors" : isOwnFault ? "not_sent" : undefined)
      }
    }
  }
}
