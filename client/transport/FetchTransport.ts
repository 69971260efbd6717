/** Sends requests with `fetch`. */
import type { PromiseClientOptions } from "../Options.ts"
import { ignore } from "../Values.ts"
import {
  answerBytes,
  type BrokenExchange,
  broken,
  requestInit,
  type Transport,
  type WireAnswer,
  type WireRequest
} from "./Transport.ts"

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
