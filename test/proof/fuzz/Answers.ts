/** A strict reader of HTTP responses (RFC 9112): every deviation is a fault of the server. */

export interface Answer {
  readonly status: number
  /** Names in lower case, in order. */
  readonly headers: ReadonlyArray<readonly [string, string]>
  readonly body: Buffer
  readonly bytes: Buffer
}

export type Parsed =
  | { readonly kind: "answer"; readonly answer: Answer; readonly rest: Buffer }
  | { readonly kind: "incomplete" }
  | { readonly kind: "broken"; readonly reason: string }

const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const fieldValue = /^[\x20-\x7e\t]*$/

const broken = (reason: string): Parsed => ({ kind: "broken", reason })

export const headersOf = ({ headers }: Answer, name: string): ReadonlyArray<string> =>
  headers.filter(([each]) => each === name).map(([, value]) => value)

const interim = "HTTP/1.1 100 Continue\r\n\r\n"

/** Reads the first response after `100 Continue`; a response to HEAD has no body. */
export const parseAnswer = (received: Buffer, method: string): Parsed => {
  const bytes =
    received.toString("latin1", 0, interim.length) === interim ? received.subarray(interim.length) : received
  const end = bytes.indexOf("\r\n\r\n")
  if (end === -1) return bytes.length > 65_536 ? broken("a head without an end") : { kind: "incomplete" }
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
  const answer = { status, headers, body: Buffer.alloc(0), bytes: bytes.subarray(0, end + 4) }
  if (headersOf(answer, "transfer-encoding").length > 0) return broken("a transfer coding")
  const lengths = headersOf(answer, "content-length")
  const bodiless = method === "HEAD" || status === 204 || status === 304
  if (lengths.length > 1) return broken("two lengths")
  if (lengths.length === 0 && !bodiless) return broken("no length")
  if (status === 204 && lengths.length > 0) return broken("a length with 204")
  if (lengths.some((length) => !/^\d+$/.test(length))) return broken("the length")
  const length = bodiless ? 0 : Number(lengths[0])
  const whole = end + 4 + length
  if (bytes.length < whole) return { kind: "incomplete" }
  return {
    kind: "answer",
    answer: { ...answer, body: bytes.subarray(end + 4, whole), bytes: bytes.subarray(0, whole) },
    rest: bytes.subarray(whole)
  }
}
