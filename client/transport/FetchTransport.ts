/** Sends requests with `fetch`. */
import type { PromiseClientOptions } from "../Options.ts"
import {
  answerBytes,
  type BrokenExchange,
  broken,
  requestInit,
  type Transport,
  type WireAnswer,
  type WireHead,
  type WireRequest
} from "./Transport.ts"

type Fetch = NonNullable<PromiseClientOptions["fetch"]>

/** Milliseconds for finding out whether the server is there at all. */
const probeMilliseconds = 3_000
/** Milliseconds between two such probes. */
const probePause = 10_000

const headOf = (response: Response): WireHead => {
  const headers: Record<string, string> = {}
  response.headers.forEach((value, name) => {
    headers[name.toLowerCase()] = value
  })
  return { status: response.status, headers }
}

/** Reads a body up to the bound. */
const readAnswer = async (response: Response): Promise<WireAnswer> => {
  const head = headOf(response)
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
      reader.cancel().catch(() => undefined)
      return Promise.reject(broken(undefined, { answer: { ...head, body }, tooLarge: true }))
    }
  } catch (cause) {
    return Promise.reject(broken(cause, { answer: { ...head, body } }))
  }
}

const probeInit = { credentials: "omit", cache: "no-store" } as const

interface Page {
  readonly document?: unknown
  readonly location?: { readonly origin?: string }
}

// The same source compiles without DOM types.
const page = () => globalThis as unknown as Page

const isOfOtherOrigin = (url: string): boolean => {
  const { document, location } = page()
  return document !== undefined && location?.origin !== undefined && location.origin !== new URL(url).origin
}

/**
 * Whether a page's request failed because the server does not allow its origin. A browser does not distinguish that from a
 * lost connection; but then a plain GET is answered, and only its answer cannot be read.
 */
const isOriginRefused = async (fetch: Fetch, { baseUrl, url }: WireRequest): Promise<boolean> => {
  // All calls of the API share one rule; the probes of health have none.
  const probed = url.startsWith(`${baseUrl}/api/`) ? `${baseUrl}/api/v1/version` : url
  const isAnswered = (mode: "cors" | "no-cors") =>
    fetch(probed, { ...probeInit, mode, signal: AbortSignal.timeout(probeMilliseconds) }).then(
      () => true,
      () => false
    )
  return isOfOtherOrigin(url) && !(await isAnswered("cors")) && (await isAnswered("no-cors"))
}

/** A `TypeError` of the platform's `fetch` in Node has a cause, and a page's has no cause: any other is a mistake in the program's own. */
const isOwnMistake = (cause: unknown): boolean =>
  cause instanceof TypeError && cause.cause === undefined && page().document === undefined

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
  const brokenBefore = async (
    fetch: Fetch,
    request: WireRequest,
    cause: unknown
  ): Promise<BrokenExchange> => {
    const originRefused = !allowed && (await askOnce(fetch, request))
    return broken(cause, { originRefused, isOwnFault: given !== undefined && isOwnMistake(cause) })
  }
  return {
    send: async (request, signal) => {
      const { body, headers, keepalive, method, url } = request
      const fetch = given ?? globalThis.fetch
      let response: Response
      try {
        response = await fetch(url, {
          method,
          headers,
          signal,
          ...requestInit,
          ...(body === undefined ? {} : { body }),
          ...(keepalive ? { keepalive } : {})
        })
      } catch (cause) {
        return Promise.reject(await brokenBefore(fetch, request, cause))
      }
      const answer = await readAnswer(response)
      allowed = true
      return answer
    }
  }
}
