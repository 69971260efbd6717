/**
 * The one reader of published text, independent of the service: it decodes what a program or a person would decode, again and again, and
 * reads an issue's Markdown by the rules of CommonMark.
 */
import { decodeHTMLStrict } from "entities/decode"

const unseen = /[\p{Default_Ignorable_Code_Point}\p{Cf}]|(?![\t\n])\p{Cc}|\p{Surrogate}/gu
const pointOf = (base: number) => (_: string, digits: string) => {
  const code = Number.parseInt(digits, base)
  return code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd"
}
/** Units and not characters: two may be a pair. */
const unitOf = (_: string, digits: string): string => String.fromCharCode(Number.parseInt(digits, 16))

/** References as a renderer decodes them once; the names are the HTML standard's. */
export const decodeReferences = (text: string): string =>
  decodeHTMLStrict(
    text.replace(/&#x0*([0-9a-f]{1,6});?/gi, pointOf(16)).replace(/&#0*(\d{1,7});?/g, pointOf(10))
  )

const steps: ReadonlyArray<(text: string) => string> = [
  (text) => text.replace(/\r\n?|[\v\f\u0085\u2028\u2029]/g, "\n").replace(unseen, ""),
  (text) =>
    text
      .replace(/\\+u([0-9a-f]{4})/gi, unitOf)
      .replace(/\\+u\{0*([0-9a-f]{1,6})\}/gi, pointOf(16))
      .replace(/\\+x([0-9a-f]{2})/gi, pointOf(16))
      .replace(/\\+([bfnrtv])/g, "\n")
      .replace(/\\+([!-/:-@[-`{-~])/g, "$1"),
  (text) =>
    text
      .replace(/(?:%(?:25)*[0-9a-f]{2})+/gi, (run) =>
        Buffer.from(run.replace(/%(?:25)*(?=[0-9a-f]{2})/gi, ""), "hex").toString("utf8")
      )
      .replace(/%(?:25)*u([0-9a-f]{4})/gi, unitOf),
  (text) => decodeReferences(text.replace(/&(?:amp;)+(?=[#A-Za-z])/g, "&")),
  (text) => text.normalize("NFKC")
]

/** The text and everything that it becomes while it is decoded, layer by layer. */
export const readingsOf = (text: string): ReadonlyArray<string> => {
  const found = new Set([text])
  let last = text
  for (let round = 0; round < 8; round += 1) {
    const before = last
    for (const step of steps) {
      last = step(last)
      found.add(last)
    }
    if (last === before) break
  }
  return [...found]
}

/** Whether any reading shows this text. */
export const shows = (text: string, secret: string): boolean =>
  readingsOf(text).some((reading) => reading.includes(secret))

/** Characters of a credential in a row by which it counts as published. */
const betraying = 12

/** Whether any reading shows a part of the secret. */
export const betrays = (text: string, secret: string): boolean => {
  const parts = Array.from({ length: Math.max(1, secret.length - betraying + 1) }, (_, at) =>
    secret.slice(at, at + betraying)
  )
  return readingsOf(text).some((reading) => parts.some((part) => reading.includes(part)))
}

/**
 * Whether any reading names the actor: with its colon anywhere, with an underscore at the start of a word. Of a reporter who is not
 * verified the service knows no id, and recognises one at the start of a word only.
 */
export const names = (text: string, publicId: string, isVerified = true): boolean => {
  const [kind = "", handle = ""] = publicId.split(":")
  const name = new RegExp(
    `(?:${isVerified ? "" : "(?<![a-z0-9])"}${kind}:|(?<![a-z0-9])${kind}_)${handle}(?![a-z0-9])`,
    "i"
  )
  return readingsOf(text).some((reading) => name.test(reading))
}

/** Lines that the service itself writes; every one is plain text or a code span of harmless characters. */
const ownLine =
  /^(?:|- (?:Report|Backend|Source|Created|Request|Pull request): `[A-Za-z0-9._:/+-]+`|Context:|Attachment `[A-Za-z0-9._-]+`:|\[left out: the stored report holds more\]|report-ref: rep_[0-9a-f]{32}-[0-9a-f]{32})$/
/** Characters that change how other text is shown. */
const controls =
  /(?![\t\n])\p{Cc}|[\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff\u200c-\u200f\u{e0000}-\u{e0fff}]|\p{Surrogate}/u
/** What notifies, refers or is rendered where a mail client quotes text without its block. */
const active: Readonly<Record<string, RegExp>> = {
  "a mention": /@[\p{L}\p{N}_]/u,
  "a reference": /#[\p{L}\p{N}_]|\bGH-\d/iu,
  "a marker": /report-ref/i,
  "control characters": controls
}

/** The texts in fenced blocks by CommonMark 4.5, and what is wrong outside of them. */
const readBody = (body: string) => {
  const blocks: Array<string> = []
  const problems: Array<string> = []
  let fence = ""
  let block: Array<string> = []
  // CommonMark ends a line with LF, CR or both.
  for (const line of body.split(/\r\n|\n|\r/)) {
    if (fence === "") {
      const [, run = "", info = ""] = /^ {0,3}(`{3,}|~{3,})(.*)$/.exec(line) ?? []
      const opens = run !== "" && !(run.startsWith("`") && info.includes("`"))
      if (opens) fence = run
      if (opens && info.trim() !== "text") problems.push(`a block of ${JSON.stringify(info)}`)
      if (!opens && !ownLine.test(line)) problems.push(`outside of the blocks: ${JSON.stringify(line)}`)
    } else {
      const [, run = ""] = /^ {0,3}(`{3,}|~{3,})[ \t]*$/.exec(line) ?? []
      if (run.startsWith(fence)) {
        blocks.push(block.join("\n"))
        block = []
        fence = ""
      } else block.push(line)
    }
  }
  if (fence !== "") problems.push("a block that does not end")
  return { blocks, problems }
}

/** What is wrong with an issue; `marker` is its own last line. */
export const problemsOf = (
  { body, title }: { readonly title: string; readonly body: string },
  marker: string,
  size: { readonly title: number; readonly characters: number; readonly bytes: number }
): ReadonlyArray<string> => {
  const { blocks, problems } = readBody(body)
  const acts = [title, ...blocks].flatMap((text) =>
    // As it is, and where a renderer decodes HTML references once.
    [text, decodeReferences(text)].flatMap((reading) =>
      Object.entries(active)
        .filter(([, pattern]) => pattern.test(reading))
        .map(([name]) => `${name} in ${JSON.stringify(reading.slice(0, 200))}`)
    )
  )
  const isTooLong =
    body.length > size.characters || Buffer.byteLength(body) > size.bytes || [...title].length > size.title
  return [
    ...problems,
    ...acts,
    ...(body.endsWith(`\n\n${marker}`) ? [] : ["the marker is not the last line"]),
    ...(body.split(/report-ref: /i).length === 2 ? [] : ["another marker"]),
    ...(isTooLong ? ["the issue is too long"] : []),
    ...(/^\[report\] [^\n\r\t]*$/.test(title) ? [] : [`the title ${JSON.stringify(title)}`])
  ]
}
