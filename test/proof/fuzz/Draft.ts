/** A request under construction: mutations change its parts, `toBytes` writes it. */
import type { Random } from "../../durability/Random.ts"
import type { Operation } from "./Contract.ts"
import type { Json } from "./JsonText.ts"

/** A session that IAM granted to this suite. */
export interface LiveSession {
  readonly plane: "production" | "testing"
  readonly actor: string
  readonly organisation: string
  readonly access: string
  readonly refresh: string
}

export type Framing =
  | { readonly kind: "length" }
  | { readonly kind: "chunked"; readonly extension: string; readonly trailer: string }
  /** The bytes after the head are sent as they are, under the given header lines. */
  | { readonly kind: "raw"; readonly lines: ReadonlyArray<string>; readonly bytes: Buffer }

export interface Draft {
  readonly index: number
  readonly random: Random
  /** Undefined for the documents and unknown paths. */
  readonly operation: Operation | undefined
  readonly plane: "production" | "testing"
  method: string
  target: string
  /** As written after `HTTP/`. */
  version: string
  /** Names and values as Latin-1 text: one character is one byte. */
  headers: Array<readonly [string, string]>
  /** The body as JSON; mutations of the text work on `body`. */
  value: Json | undefined
  body: Buffer | undefined
  framing: Framing
  /** Complete bytes that replace everything else. */
  verbatim: Buffer | undefined
  /** Lines of the head that are no headers. */
  lines: Array<string>
  /** The client's address, which the trusted proxy names. */
  address: string
  /** The session whose credentials the request carries. */
  session: LiveSession | undefined
  /** A short-lived token that was minted for this request. */
  slt: string | undefined
  /** Signs the body when it is final. */
  sign: ((body: Buffer) => ReadonlyArray<readonly [string, string]>) | undefined
  /** What makes the outcome depend on more than this request; every documented answer is right. */
  open: boolean
  /** The bytes are no complete HTTP request, so the transport refuses them. */
  malformed: "refused" | "perhaps" | undefined
  /** The end of the bytes is the end of the connection. */
  halfClose: boolean
  /** No other request may follow on its connection. */
  last: boolean
  readonly mutations: Array<string>
}

export const headerOf = (draft: Draft, name: string): ReadonlyArray<string> =>
  draft.headers.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value)

export const setHeader = (draft: Draft, name: string, ...values: ReadonlyArray<string>): void => {
  draft.headers = [
    ...draft.headers.filter(([each]) => each.toLowerCase() !== name.toLowerCase()),
    ...values.map((value) => [name, value] as const)
  ]
}

const chunks = (body: Buffer, { random }: Draft, extension: string): Buffer => {
  const parts: Array<Buffer> = []
  for (let at = 0; at < body.length; ) {
    const size = Math.min(body.length - at, 1 + random.below(Math.max(2, Math.ceil(body.length / 3))))
    parts.push(Buffer.from(`${size.toString(16)}${extension}\r\n`), body.subarray(at, at + size), crlf)
    at += size
  }
  return Buffer.concat(parts)
}

const crlf = Buffer.from("\r\n")

export const toBytes = (draft: Draft): Buffer => {
  if (draft.verbatim !== undefined) return draft.verbatim
  const { body, framing } = draft
  const lines = [
    `${draft.method} ${draft.target} HTTP/${draft.version}`,
    ...draft.headers.map(([name, value]) => `${name}: ${value}`),
    `X-Forwarded-For: ${draft.address}`,
    ...draft.lines
  ]
  let content = Buffer.alloc(0)
  if (framing.kind === "raw") {
    lines.push(...framing.lines)
    content = Buffer.from(framing.bytes)
  } else if (framing.kind === "chunked") {
    lines.push("Transfer-Encoding: chunked")
    content = Buffer.concat([
      chunks(body ?? Buffer.alloc(0), draft, framing.extension),
      Buffer.from(`0\r\n${framing.trailer}\r\n`)
    ])
  } else if (body !== undefined) {
    lines.push(`Content-Length: ${body.length}`)
    content = Buffer.from(body)
  }
  return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"), content])
}
