/**
 * Reads what the service publishes as readers do, independently of it: decodes what a program or a person would decode, again and
 * again, and reads an issue's Markdown by the rules of CommonMark. The one oracle of the tests of published text.
 */

const letters = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"]

/** What is shown, one character, and the names of its references (from the HTML standard): ASCII, and compatibility forms of ASCII. */
const ofCharacters = `!excl "quot,QUOT #num $dollar %percnt &amp,AMP 'apos (lpar )rpar *ast,midast +plus ,comma .period /sol :colon
  ;semi <lt,LT =equals >gt,GT ?quest @commat [lsqb,lbrack \\bsol ]rsqb,rbrack ^Hat _lowbar,UnderBar \`grave,DiacriticalGrave
  {lcub,lbrace |verbar,vert,VerticalLine }rcub,rbrace 1sup1 2sup2 3sup3 Bbernou,Bernoullis CCayleys,complexes
  DCapitalDifferentialD,DD Eexpectation FFouriertrf Hhamilt,HilbertSpace,Poincareplane,quaternions IIm,image,imagline,imagpart
  Llagran,Laplacetrf MMellintrf,phmmat Nnaturals Pprimes Qrationals RRe,real,realine,realpart,reals ScircledS,oS Zintegers,zeetrf
  aordf ddd,DifferentialD eee,ExponentialE,exponentiale hplanckh iii,ImaginaryI lell oorder,orderof,ordm`
const ofOthers: ReadonlyArray<readonly [shown: string, names: string]> = [
  ["\t", "Tab"],
  ["\n", "NewLine"],
  ["IJ", "IJlig"],
  ["ij", "ijlig"],
  ...["fj", "ff", "fi", "fl", "ffi", "ffl"].map((shown) => [shown, `${shown}lig`] as const),
  ["...", "hellip mldr"],
  ["..", "nldr"],
  [
    " ",
    "nbsp NonBreakingSpace ensp emsp emsp13 emsp14 numsp puncsp thinsp ThinSpace hairsp VeryThinSpace MediumSpace"
  ],
  [
    "",
    `shy zwj zwnj lrm rlm NoBreak ZeroWidthSpace af ApplyFunction ic InvisibleComma it InvisibleTimes
      NegativeVeryThinSpace NegativeThinSpace NegativeMediumSpace NegativeThickSpace`
  ]
]

/** What a named reference shows, in ASCII. */
export const references: ReadonlyMap<string, string> = new Map([
  ...ofCharacters.split(/\s+/).flatMap((entry) =>
    entry
      .slice(1)
      .split(",")
      .map((name) => [name, entry.slice(0, 1)] as const)
  ),
  ...ofOthers.flatMap(([shown, names]) => names.split(/\s+/).map((name) => [name, shown] as const)),
  ...letters.flatMap((letter) =>
    ["fr", "scr", "opf"].map((script) => [`${letter}${script}`, letter] as const)
  )
])

const unseen = /[\p{Default_Ignorable_Code_Point}\p{Cf}]|(?![\t\n])\p{Cc}|\p{Surrogate}/gu
const escape = "\u001B"
const terminal = new RegExp(`(?:${escape}|\\^\\[)\\[[0-?]*[ -/]*[@-~]`, "g")
const point = (base: number) => (_: string, digits: string) => {
  const code = Number.parseInt(digits, base)
  return code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd"
}
const unit = (_: string, digits: string) => String.fromCharCode(Number.parseInt(digits, 16))

const steps: ReadonlyArray<(text: string) => string> = [
  (text) =>
    text
      .replace(/\r\n?|[\v\f\u0085\u2028\u2029]/g, "\n")
      .replace(terminal, "")
      .replace(unseen, ""),
  (text) =>
    text
      .replace(/\\+u([0-9a-f]{4})/gi, unit)
      .replace(/\\+u\{0*([0-9a-f]{1,6})\}/gi, point(16))
      .replace(/\\+U([0-9a-f]{8})/g, point(16))
      .replace(/\\+x([0-9a-f]{2})/gi, point(16))
      .replace(/\\+[bfnrtv]/g, "\n")
      .replace(/\\+([!-/:-@[-`{-~])/g, "$1"),
  (text) =>
    text
      .replace(/(?:%(?:25)*[0-9a-f]{2})+/gi, (run) =>
        Buffer.from(run.replace(/%(?:25)*(?=[0-9a-f]{2})/gi, ""), "hex").toString("utf8")
      )
      .replace(/%(?:25)*u([0-9a-f]{4})/gi, unit),
  (text) =>
    text
      .replace(/&(?:amp;)*#x0*([0-9a-f]{1,6});?/gi, point(16))
      .replace(/&(?:amp;)*#0*(\d{1,7});?/g, point(10))
      .replace(
        /&(?:amp;)*([A-Za-z][A-Za-z0-9]{1,30});/g,
        (given, name: string) => references.get(name) ?? given
      ),
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
const decodeReferences = (text: string): string =>
  text
    .replace(/&#x0*([0-9a-f]{1,6});?/gi, point(16))
    .replace(/&#0*(\d{1,7});?/g, point(10))
    .replace(/&([A-Za-z][A-Za-z0-9]{1,30});/g, (given, name: string) => references.get(name) ?? given)
/** Characters that change how other text is shown. */
const controls =
  /(?![\t\n])\p{Cc}|[\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff\u200c-\u200f\u{e0000}-\u{e0fff}]|\p{Surrogate}/u

/** What is wrong with an issue; `marker` is its own last line. */
export const problemsOf = (
  { body, title }: { readonly body: string; readonly title: string },
  marker: string,
  size: { readonly title: number; readonly characters: number; readonly bytes: number }
): ReadonlyArray<string> => {
  const { blocks, problems } = readBody(body)
  const texts = [title, ...blocks]
  return [
    ...problems,
    ...(body.endsWith(`\n\n${marker}`) ? [] : ["the marker is not the last line"]),
    ...(body.split(/report-ref: /i).length === 2 ? [] : ["another marker"]),
    ...(body.length <= size.characters && Buffer.byteLength(body) <= size.bytes ? [] : ["too long"]),
    ...([...title].length <= size.title ? [] : ["the title is too long"]),
    ...(/^\[report\] [^\n\r\t]+$/.test(title) ? [] : [`the title ${JSON.stringify(title)}`]),
    ...texts
      .flatMap((text) => [text, decodeReferences(text)])
      .flatMap((text) => active.exec(text) ?? [])
      .map((act) => `it acts: ${act}`),
    ...(texts.some((text) => controls.test(text)) ? ["control characters"] : [])
  ]
}
