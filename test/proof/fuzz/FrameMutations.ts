/** Mutations of the syntax and of the framing of a request: what the transport reads before the service does. */
import { makeCanary } from "./Canary.ts"
import { type Draft, toBytes } from "./Draft.ts"
import type { Mutation } from "./Mutation.ts"
import { pick } from "./Text.ts"

const crlf = "\r\n"

/** A request that the transport refuses with 400, after which the connection ends. */
const refuse = (draft: Draft, malformed: NonNullable<Draft["malformed"]> = "refused"): void => {
  draft.malformed = malformed
  draft.last = true
}

const bodyOf = (draft: Draft): Buffer => draft.body ?? Buffer.alloc(0)

const raw = (draft: Draft, lines: ReadonlyArray<string>, bytes: Buffer): void => {
  draft.framing = { kind: "raw", lines, bytes }
}

const chunkOf = (body: Buffer, size = body.length.toString(16)): Buffer =>
  Buffer.concat([Buffer.from(`${size}${crlf}`), body, Buffer.from(`${crlf}0${crlf}${crlf}`)])

const onBody = (
  name: string,
  change: (draft: Draft, body: Buffer, random: Draft["random"]) => string
): Mutation => ({
  name,
  stage: "frame",
  apply: (draft, random) => {
    const body = bodyOf(draft)
    return body.length === 0 || draft.framing.kind !== "length" ? undefined : change(draft, body, random)
  }
})

const frames: ReadonlyArray<Mutation> = [
  onBody("chunks", (draft, _, random) => {
    const extension = pick(random, ["", "", ";a=b", ';name="quoted"', `;${"x".repeat(500)}`])
    const trailer = pick(random, ["", "", "X-Trailer: 1\r\n", "Idempotency-Key: trailer-trailer-trailer\r\n"])
    draft.framing = { kind: "chunked", extension, trailer }
    if (extension.length > 100) draft.malformed = "perhaps"
    return `${extension.slice(0, 20)} ${trailer.trim()}`
  }),
  onBody("a length that is too long, then the end", (draft, body, random) => {
    raw(draft, [`Content-Length: ${body.length + 1 + random.below(50)}`], body)
    refuse(draft, "perhaps")
    draft.halfClose = true
    return ""
  }),
  onBody("a body cut short, then the end", (draft, body, random) => {
    raw(draft, [`Content-Length: ${body.length}`], body.subarray(0, random.below(body.length)))
    refuse(draft, "perhaps")
    draft.halfClose = true
    return ""
  }),
  onBody("a chunk cut short, then the end", (draft, body, random) => {
    const whole = chunkOf(body)
    raw(draft, ["Transfer-Encoding: chunked"], whole.subarray(0, random.below(whole.length)))
    refuse(draft, "perhaps")
    draft.halfClose = true
    return ""
  }),
  onBody("a length that is too short", (draft, body, random) => {
    raw(draft, [`Content-Length: ${random.below(body.length)}`], body)
    refuse(draft, "perhaps")
    draft.open = true
    return ""
  }),
  onBody("two lengths", (draft, body, random) => {
    const other = pick(random, [body.length, body.length + 1, 0])
    raw(draft, [`Content-Length: ${body.length}`, `Content-Length: ${other}`], body)
    refuse(draft)
    return String(other)
  }),
  onBody("length and chunks", (draft, body, random) => {
    const lines = [`Content-Length: ${body.length}`, "Transfer-Encoding: chunked"]
    raw(draft, random.below(2) === 0 ? lines : lines.toReversed(), chunkOf(body))
    refuse(draft)
    return ""
  }),
  onBody("odd length", (draft, body, random) => {
    const length = pick(random, ["-1", "+5", "0x10", "1e3", "5, 5", "", "99999999999999999999", "5 5", "NaN"])
    raw(draft, [`Content-Length: ${length}`], body)
    refuse(draft)
    return length
  }),
  onBody("odd transfer coding", (draft, body, random) => {
    const coding = pick(random, [
      "gzip",
      "chunked, gzip",
      "xchunked",
      "chunked, chunked",
      "identity",
      "chunked\t,",
      " chunked;q=1"
    ])
    raw(draft, [`Transfer-Encoding: ${coding}`], chunkOf(body))
    refuse(draft, "perhaps")
    draft.open = true
    return coding
  }),
  onBody("odd chunk", (draft, body, random) => {
    const size = pick(random, [
      "g",
      "-5",
      "0x5",
      "",
      "ffffffffffffffffff",
      `${body.length.toString(16)} `,
      "\n5"
    ])
    raw(draft, ["Transfer-Encoding: chunked"], chunkOf(body, size))
    refuse(draft, "perhaps")
    draft.open = true
    draft.halfClose = true
    return size
  }),
  {
    name: "odd header line",
    stage: "frame",
    apply: (draft, random) => {
      const canary = makeCanary("header", draft.index)
      const line = pick(random, [
        "No-Colon",
        "Space Before : x",
        "X-Space : x",
        ": no name",
        `X-Nul: a\0${canary}`,
        `X-Bell: \u0007${canary}`,
        `X-Return: a\r${canary}`,
        " X-Folded: start",
        "X-Name\u00e9: x",
        "X(Paren): x",
        "\u0001: x"
      ])
      draft.lines.push(line)
      refuse(draft)
      return JSON.stringify(line.slice(0, 20))
    }
  },
  {
    name: "line feeds alone, or folded lines",
    stage: "frame",
    apply: (draft, random) => {
      const bytes = toBytes(draft)
      const end = bytes.indexOf("\r\n\r\n")
      const head = bytes.subarray(0, end + 4).toString("latin1")
      const kind = pick(random, ["bare", "folded", "mixed"])
      const changed =
        kind === "bare"
          ? head.replaceAll("\r\n", "\n")
          : kind === "folded"
            ? head.replace("\r\n\r\n", "\r\nX-Folded: a\r\n b\r\n\r\n")
            : head.replace("\r\n", "\n")
      draft.verbatim = Buffer.concat([Buffer.from(changed, "latin1"), bytes.subarray(end + 4)])
      refuse(draft, "perhaps")
      draft.open = true
      draft.halfClose = true
      return kind
    }
  },
  {
    name: "odd request line",
    stage: "frame",
    apply: (draft, random) => {
      const { method, target } = draft
      const canary = makeCanary("path", draft.index)
      const line = pick(random, [
        `${method}  ${target} HTTP/1.1`,
        `${method} ${target} HTTP/2.0`,
        `${method} ${target} HTTP/1.2`,
        `${method} ${target} http/1.1`,
        `${method} ${target}`,
        `${method} ${target} ${canary} HTTP/1.1`,
        `${method} ${target}\0 HTTP/1.1`,
        `${method} /${latin1Path} HTTP/1.1`,
        `${canary}`,
        "PRI * HTTP/2.0",
        "\u0016\u0003\u0001\u0002\u0000"
      ])
      const bytes = toBytes(draft)
      draft.verbatim = Buffer.concat([Buffer.from(line, "latin1"), bytes.subarray(bytes.indexOf("\r\n"))])
      refuse(draft, "perhaps")
      draft.open = true
      draft.halfClose = true
      return JSON.stringify(line.slice(0, 40))
    }
  },
  {
    name: "empty lines before",
    stage: "frame",
    apply: (draft) => {
      draft.verbatim = Buffer.concat([Buffer.from("\r\n\r\n"), toBytes(draft)])
      return ""
    }
  },
  {
    name: "random bytes",
    stage: "frame",
    apply: (draft, random) => {
      draft.verbatim = Buffer.from(Array.from({ length: 1 + random.below(300) }, () => random.below(256)))
      refuse(draft, "perhaps")
      draft.open = true
      draft.halfClose = true
      return String(draft.verbatim.length)
    }
  },
  {
    name: "a byte of the request changed",
    stage: "frame",
    apply: (draft, random) => {
      const bytes = Buffer.from(toBytes(draft))
      const body = bytes.subarray(bytes.length - (draft.body?.length ?? 0))
      const isSentAsItIs = draft.body?.equals(body) === true
      const position = random.below(bytes.length)
      bytes[position] = random.below(256)
      draft.verbatim = bytes
      // The changed text may be accepted, and is to be kept then.
      if (isSentAsItIs) draft.body = body
      refuse(draft, "perhaps")
      draft.open = true
      draft.halfClose = true
      return String(position)
    }
  }
]

const latin1Path = Buffer.from("日本").toString("latin1")

export const frameMutations: ReadonlyArray<Mutation> = frames
