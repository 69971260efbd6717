/** Removes everything in the form of a credential from text before it is stored (api.md, reports). */
import * as Either from "effect/Either"
import type { ReportContent } from "../Store.ts"
import { type Find, findPattern, jsonLayers, replaceVisible, textLayers } from "./VisibleText.ts"

/** Replaces a credential. */
export const redactedText = "[redacted]"

/**
 * Matches words joined by separators, such as `ask_for_confirmation`, which no random token looks like. Bounded, so that the
 * look-ahead is fast on any text.
 */
const wordsPattern = (separators: string, token: string) =>
  `(?:[A-Z]?[a-z]{1,15}[${separators}]){0,7}[A-Z]?[a-z]{1,15}[${separators}]{0,3}(?![${token}])`

const familyBody = "A-Za-z0-9_-"
const family = "(?:oat|ort|oac|obo|ask|cat|sat|rft|sup|whs)_"
const secret = "A-Za-z0-9._~+/=-"
const secretWords = wordsPattern("._~+/=-", secret)
/** Without "=", which ends the name of a scheme's parameter. */
const listedWords = wordsPattern("._~+/-", secret)
const space = "(?:\\s|%20|\\+){1,8}"
const anyCase = (words: string) => words.replace(/[a-z]/g, (letter) => `[${letter.toUpperCase()}${letter}]`)

const scheme = `(?:${anyCase("bearer|basic|token|digest|apikey|negotiate|ntlm")})${space}(?:["'\`<]|\\\\{1,3}["'\`])?`
/** Such as `DPoP`: any word, so only a token that looks random is a credential behind it, no name with its value, and none of the next line. */
const otherScheme = "[A-Za-z][A-Za-z0-9-]{0,19}(?:[ \\t]|%20|\\+){1,8}(?![\\w.-]{1,40}=\\w)"
const header = anyCase("authorization")
/** The members and headers that hold the root key of a testing environment. */
const keyHeader = anyCase("(?:environment|testing|iam[-_]test)[-_]key")
const valueNames = "values?|val|v|content|data|string|parameter|credentials?"

const mark = "(?:\\\\{0,3}[\"'`])"
const gap = "\\s{0,20}"
const tag = `${gap}<[^<>]{0,80}>`
const opening = `${gap}(?:string\\(\\d{1,6}\\)${gap}|[[({]${gap})?(?:[bu]?${mark})?`
const valueName = `${mark}?(?:${anyCase(valueNames)})${mark}?${gap}(?:=>|[:=])`
/**
 * Between a header's name and its value: of a header line, an assignment, a JSON member, a member that holds the value, an object,
 * element or list of a name and a value.
 */
const assigned =
  `(?:${mark}?\\]?${gap}(?:=>|[:=])(?:${gap}\\{?${gap}${valueName})?${opening}` +
  `|${mark}?[\\s,;]{0,20}${valueName}${opening}` +
  `|${gap}</[^<>]{0,80}>${gap}<(?:${anyCase(valueNames)})\\b[^<>]{0,80}>${gap})`
/** Between the cells of a table, the members of a list, a tag and its text. The next may also be another name. */
const listed = `(?:${mark}?${gap}[|>]|${mark}${gap},|(?:${tag}){1,4})${opening}`

/** The group of a match is kept: the name of a header. */
const credentials = findPattern(
  new RegExp(
    [
      `(${header}${assigned})(?:${scheme}[${secret}]+|(?:${otherScheme})?(?!${secretWords})[${secret}]{16,})`,
      // A member of JSON, or the first of what it holds, whatever its text.
      `("(?:[\\w.-]{0,40}[-_.])?${header}"${gap}:${gap}(?:\\[${gap}|{${gap}${valueName}${gap})?")(?:[^"\\\\\\n]|\\\\.)+(?=")`,
      // Beside its name only after a scheme: a list of names is ordinary text.
      `(${header}${listed})${scheme}(?!${listedWords})[${secret}]+`,
      // The same without a separator, as in a table.
      `(${header}${mark}?[\\s,;]{1,20}${mark}?)${scheme}(?!${secretWords})[${secret}]{8,}`,
      `(${keyHeader}(?:${assigned}|${listed}|\\s{1,20}))[A-Za-z0-9]{32}(?![A-Za-z0-9])`,
      `${anyCase("bearer")}${space}(?:${mark}|<)?(?!${secretWords})[${secret}]{8,}`,
      // After a letter or digit (an escape, a percent code) words are more likely part of an identifier.
      `(?:(?<![A-Za-z0-9])${family}|${family}(?!${wordsPattern("_-", familyBody)}))[${familyBody}]{16,}`,
      "stk-[0-9a-fA-F]{32,}",
      "table-[a-z0-9]{1,50}-[0-9a-fA-F]{32,}",
      "github_pat_[A-Za-z0-9_]{16,}",
      "gh[pousr]_[A-Za-z0-9_]{16,}(?:\\.[A-Za-z0-9_-]+)*"
    ].join("|"),
    "g"
  )
)

/** Every credential has one of these; a search for them all is far cheaper than one for each credential. */
const marker = new RegExp(
  `authorization|bearer|basic|[-_]key|${family}|stk-|table-|github_pat_|gh[pousr]_`,
  "i"
)
/** Characters of the shortest credential, `Basic` and `a:b` in base64. */
const shortest = 10

/** A user and a password in base64. A name that ends in the word, such as `auth_basic`, is not read as the base64 behind a word before it. */
const afterBasic = "(?:%20|[^A-Za-z0-9])"
const pairs = new RegExp(
  `basic${afterBasic}{1,12}(?!basic)((?:(?!basic${afterBasic})[A-Za-z0-9+/_-]){4,}={0,2})`,
  "gi"
)
/** With nothing of what the bytes of a word or of a random text contain. */
const pair = /^(?:[^\p{Cc}\uFFFD:]+:[^\p{Cc}\uFFFD]*$|[^\p{Cc}\uFFFD:]*:[^\p{Cc}\uFFFD]{8})/u
const findPairs: Find = (text) =>
  Array.from(text.matchAll(pairs)).flatMap(({ 0: whole, 1: run = "", index }) =>
    pair.test(Buffer.from(run, "base64").toString())
      ? // From the word on, but for a member of JSON, whose name stays.
        [
          {
            start: whole.includes('"') ? index + whole.length - run.length : index,
            end: index + whole.length
          }
        ]
      : []
  )

const findCredentials: Find = (text) => (marker.test(text) ? [...findPairs(text), ...credentials(text)] : [])

/**
 * Replaces every credential by `[redacted]`, also one that invisible characters or an encoding hide. All other text stays
 * unchanged. Idempotent.
 */
export const redact = (text: string, layers = textLayers): string =>
  text.length < shortest ? text : replaceVisible(text, findCredentials, redactedText, layers)

type JsonObject = Readonly<Record<string, unknown>>

/** Hides every text that a member named after the header holds. */
const hideHeader = (name: string, value: unknown): unknown =>
  /(?:^|[-_.])authorization\s*$/i.test(name)
    ? JSON.parse(JSON.stringify(value), (_, held) => (typeof held === "string" ? redactedText : held))
    : value

/**
 * The object without credentials, found in its JSON, where a header and its value are beside each other. What is then no JSON any more, as
 * a text that is replaced as a whole, is left out.
 */
export const redactObject = (object: JsonObject): JsonObject => {
  const text = JSON.stringify(object)
  const redacted = redact(marker.test(text) ? JSON.stringify(object, hideHeader) : text, jsonLayers)
  if (redacted === text) return object
  return Either.getOrElse(
    Either.try((): JsonObject => JSON.parse(redacted)),
    () => ({ text: redactedText })
  )
}

/** Redacts every text of a report that a person sent. */
export const redactReport = ({ attachments, context, message, pr }: ReportContent): ReportContent => ({
  message: redact(message),
  pr: pr === null ? null : redact(pr),
  attachments: attachments.map(({ content, name }) => ({ name: redact(name), content: redact(content) })),
  context: context === null ? null : redactObject(context)
})
