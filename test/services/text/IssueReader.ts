/**
 * Reads what the service publishes as readers do, independently of it: decodes what a program or a person would decode, and reads an issue's Markdown by the rules of CommonMark. The one oracle of the tests of published text.
 */

/** What some named references show. */
const references: Readonly<Record<string, string>> = {
  ...{ amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" },
  ...{ commat: "@", num: "#", colon: ":", lowbar: "_" }
}
const characterOf = (code: number) => (code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd")
const point = (base: number) => (_: string, digits: string) => characterOf(Number.parseInt(digits, base))

/** What is written in a text for something else: line ends, what is unseen, and each encoding. */
const layer = new RegExp(
  [
    "(?<end>\\r\\n?|[\\v\\f\\u0085\\u2028\\u2029]|\\\\+[fnrv])",
    "\\u001b\\([0-~]|\\u001b\\]8;;\\u001b\\\\|(?<dotted>[\\u0130\\u0131])",
    "(?:\\u001b|\\^\\[|\\\\+e|\\\\+033)\\[[0-?]*[ -/]*[@-~]|\\[[\\d;]*[mK]|\\\\+b",
    "(?:\\\\+|%)u(?<unit>[0-9a-fA-F]{4})|\\\\+[ux]\\{0*(?<braced>[0-9a-fA-F]{1,6})\\}|\\\\+U(?<long>[0-9a-fA-F]{8})",
    "(?<bytes>(?:(?:%|\\\\+x)[0-9a-fA-F]{2})+)",
    "&#[xX]0*(?<hex>[0-9a-fA-F]{1,6});|&#0*(?<decimal>\\d{1,7});|&(?<name>amp|lt|gt|quot|apos|nbsp);",
    "\\\\+(?<literal>[!-/:-@[\\]^-`{-~])",
    "[\\p{Default_Ignorable_Code_Point}\\p{Cf}\\u0307]|(?![\\t\\n])\\p{Cc}|\\p{Surrogate}"
  ].join("|"),
  "gu"
)
const decode = (text: string): string =>
  text.replace(layer, (...found) => {
    const groups: Readonly<Record<string, string | undefined>> = found.at(-1)
    const { braced, bytes, decimal, dotted, end, hex, literal, long, name, unit } = groups
    const code = unit ?? braced ?? long ?? hex
    if (code !== undefined) return characterOf(Number.parseInt(code, 16))
    if (decimal !== undefined) return characterOf(Number(decimal))
    if (dotted !== undefined) return "i"
    if (bytes !== undefined) return Buffer.from(bytes.replace(/[\\x%]+/g, ""), "hex").toString()
    return end === undefined ? (literal ?? references[name ?? ""] ?? "") : "\n"
  })

/** The text and what it becomes while it is decoded, two layers deep. */
export const readingsOf = (text: string): ReadonlyArray<string> => [text, decode(text), decode(decode(text))]

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
 * Whether any reading names the actor: with its colon anywhere, with an underscore at the start of a word. A longer handle is another
 * actor. Of a reporter who is not verified the service knows no id, and recognises one at the start of a word only.
 */
export const names = (text: string, publicId: string, isVerified = true): boolean => {
  const [kind = "", handle = ""] = publicId.split(":")
  const start = "(?<![a-z0-9])"
  const name = new RegExp(`(?:${isVerified ? "" : start}${kind}:|${start}${kind}_)${handle}(?![a-z0-9])`, "i")
  return readingsOf(text).some((reading) => name.test(reading))
}

/** Lines that the service itself writes; every one is plain text or a code span of harmless characters. */
const ownLine =
  /^(?:|- (?:Report|Backend|Source|Created|Request|Pull request): `[A-Za-z0-9._:/+-]+`|Context:|Attachment `[A-Za-z0-9._:/+-]+`:|\[left out: the stored report holds more\]|report-ref: rep_[0-9a-f]{32}-[0-9a-f]{32})$/

/** Reads an issue's body: fences by CommonMark 4.5, everything else must be a line of the service. */
export const readBody = (body: string) => {
  const blocks: Array<string> = []
  const problems: Array<string> = []
  let fence = ""
  let block: Array<string> = []
  // CommonMark ends a line with LF, CR or both.
  for (const line of body.split(/\r\n|\n|\r/)) {
    const [, run = "", info = ""] = /^ {0,3}(`{3,}|~{3,})(.*)$/.exec(line) ?? []
    if (fence === "") {
      if (run !== "" && !(run.startsWith("`") && info.includes("`"))) {
        if (info.trim() !== "text") problems.push(`a block of ${JSON.stringify(info)}`)
        fence = run
      } else if (!ownLine.test(line)) problems.push(`outside of the blocks: ${JSON.stringify(line)}`)
    } else if (run.startsWith(fence) && /^[ \t]*$/.test(info)) {
      blocks.push(block.join("\n"))
      block = []
      fence = ""
    } else block.push(line)
  }
  if (fence !== "") problems.push("a block that does not end")
  return { blocks, problems }
}

/** What notifies, refers or is taken for a marker where a mail client quotes text without its block. */
const active = /@[\p{L}\p{N}_]|#[\p{L}\p{N}_]|\bGH-\d|report-ref/iu
const decodeReferences = (text: string): string =>
  text
    .replace(/&#x0*([0-9a-f]{1,6});?/gi, point(16))
    .replace(/&#0*(\d{1,7});?/g, point(10))
    .replace(/&([A-Za-z][A-Za-z0-9]{1,30});/g, (given, name: string) => references[name] ?? given)
/** Characters that change how other text is shown. */
const controls =
  /(?![\t\n])\p{Cc}|[\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff\u200c-\u200f\u{e0000}-\u{e0fff}]|\p{Surrogate}/u

/** What is wrong with an issue; `marker` is its own last line. */
export const problemsOf = (
  { body, title }: { readonly body: string; readonly title: string },
  marker: string,
  size: { readonly title: number; readonly characters: number }
): ReadonlyArray<string> => {
  const { blocks, problems } = readBody(body)
  const texts = [title, ...blocks]
  return [
    ...problems,
    ...(body.endsWith(`\n\n${marker}`) ? [] : ["the marker is not the last line"]),
    ...(body.split(/report-ref: /i).length === 2 ? [] : ["another marker"]),
    ...(body.length <= size.characters && Buffer.byteLength(body) <= 200_000 ? [] : ["too long"]),
    ...([...title].length <= size.title ? [] : ["the title is too long"]),
    ...(/^\[report\] [^\n\r\t]+$/.test(title) ? [] : [`the title ${JSON.stringify(title)}`]),
    ...texts
      .flatMap((text) => [text, decodeReferences(text)])
      .flatMap((text) => active.exec(text) ?? [])
      .map((act) => `it acts: ${act}`),
    ...(texts.some((text) => controls.test(text)) ? ["control characters"] : [])
  ]
}
