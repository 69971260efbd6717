/** Reads the Markdown of an issue by the rules of CommonMark, independently of the service. The one oracle of the tests of published text. */

/** Lines that the service itself writes; every one is plain text or a code span of harmless characters. */
const ownLine =
  /^(?:|- (?:Report|Backend|Source|Created|Request|Pull request): `[A-Za-z0-9._:/+-]+`|Context:|Attachment `[A-Za-z0-9._-]+`:|\[left out: the stored report holds more\]|report-ref: rep_[0-9a-f]{32}-[0-9a-f]{32})$/

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
const references: Readonly<Record<string, string>> = { amp: "&", commat: "@", num: "#" }
const point = (base: number) => (_: string, digits: string) =>
  String.fromCodePoint(Math.min(Number.parseInt(digits, base), 0x10ffff))
const decodeReferences = (text: string): string =>
  text
    .replace(/&#x0*([0-9a-f]{1,6});?/gi, point(16))
    .replace(/&#0*(\d{1,7});?/g, point(10))
    .replace(/&([a-z]+);/g, (given, name: string) => references[name] ?? given)
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
