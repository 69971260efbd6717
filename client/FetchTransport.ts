/** Sends requests with `fetch`. */
import * as Effect from "effect/Effect"
import {
  answerBytes,
  requestInit,
  type BrokenExchange,
  type Transport,
  type WireHead,
  type WireRequest
} from "./Transport.ts"

type Fetch = typeof globalThis.fetch

/** Milliseconds for finding out whether the server is there at all. */
const probeMilliseconds = 3_000

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

interface Page {
  readonly document?: unknown
  readonly location?: { readonly origin?: string }
}

/**
 * Whether a page's request failed because the server does not allow its origin. A browser does not distinguish that from a
 * lost network, but it lets a page send a request without reading the answer.
 */
const isOriginRefused = async (fetch: Fetch, url: string, signal: AbortSignal): Promise<boolean> => {
  const { document, location } = globalThis as unknown as Page
  const { origin } = new URL(url)
  if (document === undefined || location?.origin === undefined || location.origin === origin) return false
  try {
    await fetch(`${origin}/healthz`, {
      ...requestInit,
      mode: "no-cors",
      signal: AbortSignal.any([signal, AbortSignal.timeout(probeMilliseconds)])
    })
    return true
  } catch {
    return false
  }
}

const exchange = async (fetch: Fetch, request: WireRequest, signal: AbortSignal) => {
  const { body, headers, keepalive, method, url } = request
  let head: WireHead | undefined
  try {
    const response = await fetch(url, {
      method,
      headers,
      signal,
      ...requestInit,
      ...(body === undefined ? {} : { body }),
      ...(keepalive ? { keepalive } : {})
    })
    head = headOf(response)
    const text = await readBody(response)
    return text === undefined
      ? Promise.reject(broken(undefined, { head, tooLarge: true }))
      : { ...head, body: text }
  } catch (cause) {
    const originRefused = head === undefined && (await isOriginRefused(fetch, url, signal))
    return Promise.reject(broken(cause, { head, originRefused }))
  }
}

/** `given` replaces the global `fetch`. */
export const fetchTransport = (given: Fetch | undefined): Transport => ({
  send: (request) =>
    Effect.tryPromise({
      try: (signal) => exchange(given ?? globalThis.fetch, request, signal),
      // `exchange` rejects with nothing else.
      catch: (failure) => failure as BrokenExchange
    })
})
