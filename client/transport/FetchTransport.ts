/** Sends requests with `fetch`. */
import * as Effect from "effect/Effect"
import type { PromiseClientOptions } from "../Options.ts"
import {
  answerBytes,
  requestInit,
  type BrokenExchange,
  type Transport,
  type WireHead,
  type WireRequest
} from "./Transport.ts"

type Fetch = NonNullable<PromiseClientOptions["fetch"]>

/** Milliseconds for finding out whether the server is there at all. */
const probeMilliseconds = 3_000
/** Milliseconds between two such probes. */
const probePause = 10_000

const broken = (cause: unknown, facts: Partial<BrokenExchange> = {}): BrokenExchange => ({
  head: undefined,
  tooLarge: false,
  originRefused: false,
  cause,
  ...facts
})

/** Reads a body up to the bound; undefined when it is longer. */
const readBody = async (response: Response): Promise<string | undefined> => {
  // An own `fetch` may return less than a whole `Response`.
  if (typeof response.body?.getReader !== "function") return response.text()
  const reader = response.body.getReader()
  const decoder = new TextDecoder()
  let text = ""
  let bytes = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    bytes += value.byteLength
    if (bytes > answerBytes) {
      // Not awaited: the server may never end the body.
      reader.cancel().catch(() => undefined)
      return undefined
    }
    text += decoder.decode(value, { stream: true })
  }
}

const headOf = (response: Response): WireHead => {
  const headers: Record<string, string> = {}
  response.headers.forEach((value, name) => {
    headers[name.toLowerCase()] = value
  })
  return { status: response.status, headers }
}

const probeInit = { credentials: "omit", cache: "no-store" } as const

interface Page {
  readonly document?: unknown
  readonly location?: { readonly origin?: string }
}

const isOfOtherOrigin = (url: string): boolean => {
  // The same source compiles without DOM types.
  const { document, location } = globalThis as unknown as Page
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
    fetch(probed, {
      ...probeInit,
      mode,
      signal: AbortSignal.timeout(probeMilliseconds)
    }).then(
      () => true,
      () => false
    )
  return isOfOtherOrigin(url) && !(await isAnswered("cors")) && (await isAnswered("no-cors"))
}

const send = async (fetch: Fetch, request: WireRequest, signal: AbortSignal) => {
  const { body, headers, keepalive, method, url } = request
  const response = await fetch(url, {
    method,
    headers,
    signal,
    ...requestInit,
    ...(body === undefined ? {} : { body }),
    ...(keepalive ? { keepalive } : {})
  })
  const head = headOf(response)
  try {
    const text = await readBody(response)
    return text === undefined
      ? Promise.reject(broken(undefined, { head, tooLarge: true }))
      : { ...head, body: text }
  } catch (cause) {
    return Promise.reject(broken(cause, { head }))
  }
}

const isBroken = (failure: unknown): failure is BrokenExchange =>
  typeof failure === "object" && failure !== null && "originRefused" in failure

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
  const exchange = async (request: WireRequest, signal: AbortSignal) => {
    const fetch = given ?? globalThis.fetch
    try {
      const answer = await send(fetch, request, signal)
      allowed = true
      return answer
    } catch (failure) {
      if (isBroken(failure)) return Promise.reject(failure)
      const originRefused = !allowed && (await askOnce(fetch, request))
      return Promise.reject(broken(failure, { originRefused }))
    }
  }
  return {
    send: (request) =>
      Effect.tryPromise({
        try: (signal) => exchange(request, signal),
        // `exchange` rejects with nothing else.
        catch: (failure) => failure as BrokenExchange
      })
  }
}
