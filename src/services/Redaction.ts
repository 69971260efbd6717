/** Removes everything in the form of a credential from text before it is stored (api.md, reports). */
import type { ReportContent } from "./Store.ts"
import { isPlainText, readsAs, replaceVisible } from "./TextNormalisation.ts"

/** Replaces a credential. */
export const redactedText = "[redacted]"

/**
 * Matches words joined by separators, such as `ask_for_confirmation`, which no random token looks like. Bounded, so that the
 * look-ahead is fast on any text.
 */
const wordsPattern = (separators: string, token: string) =>
  `(?:[A-Z]?[a-z]{1,15}[${separators}]){0,7}[A-Z]?[a-z]{1,15}[${separators}]{0,3}(?![${token}])`

const familyBody = "A-Za-z0-9_-"
const family = "(?:oat|ort|oac|obo|ask|cat|sat|rft|sup)_"
const secret = "A-Za-z0-9._~+/=-"
const secretWords = wordsPattern("._~+/=-", secret)
const space = "(?:\\s|%20|\\+){1,8}"
const anyCase = (word: string) => [...word].map((letter) => `[${letter.toUpperCase()}${letter}]`).join("")

const schemes = ["bearer", "basic", "token", "digest", "apikey", "negotiate", "ntlm"]
const mark = "(?:\\\\{0,3}[\"'`])"
const gap = "\\s{0,20}"
const opening = `${gap}(?:\\[${gap})?${mark}?`
/** Between a header's name and its value: of a header line, an assignment, a JSON member, an object of a name and a value. */
const assigned =
  `(?:${mark}?${gap}(?:=>|[:=])(?:${gap}${mark}?value${mark}?${gap}[:=])?` +
  `|${mark}${gap},${gap}${mark}?value${mark}?${gap}[:=])${opening}`
/** Between the cells of a table, the members of a list, a tag and its text. The next may also be another name. */
const listed = `(?:${mark}?${gap}[|>]|${mark}${gap},)${opening}`
const scheme = `(?:${schemes.map(anyCase).join("|")})${space}`
/** Without "=", which ends the name of a scheme's parameter. */
const listedWords = wordsPattern("._~+/-", secret)

/** The match of a first group is kept. */
const credentials: ReadonlyArray<RegExp> = [
  // A header line, a JSON member (also escaped), a command line: the value is removed, the name stays.
  new RegExp(
    `(${anyCase("authorization")}${assigned})(?:${scheme}(?:${mark}|<)?[${secret}]+|(?!${secretWords})[${secret}]{16,})`,
    "g"
  ),
  // Beside its name only after a scheme: a list of names is ordinary text.
  new RegExp(
    `(${anyCase("authorization")}${listed})${scheme}(?:${mark}|<)?(?!${listedWords})[${secret}]+`,
    "g"
  ),
  // The same without a separator, as in a table.
  new RegExp(
    `(${anyCase("authorization")}${mark}?[\\s,;]{1,20}${mark}?)` +
      `${scheme}(?!${secretWords})[${secret}]{8,}`,
    "g"
  ),
  new RegExp(`${anyCase("bearer")}${space}(?:${mark}|<)?(?!${secretWords})[${secret}]{8,}`, "g"),
  new RegExp(`(?<![A-Za-z0-9])${family}[${familyBody}]{16,}`, "g"),
  // After a letter or digit (an escape, a percent code) words are more likely part of an identifier.
  new RegExp(`${family}(?!${wordsPattern("_-", familyBody)})[${familyBody}]{16,}`, "g"),
  /stk-[0-9a-fA-F]{32,}/g,
  /table-[a-z0-9]{1,50}-[0-9a-fA-F]{32,}/g,
  /github_pat_[A-Za-z0-9_]{16,}/g,
  /gh[pousr]_[A-Za-z0-9_]{16,}(?:\.[A-Za-z0-9_-]+)*/g
]

/** Every credential has one of these; a search for them all is far cheaper than one for each credential. */
const marker = new RegExp(`authorization|bearer|${family}|stk-|table-|github_pat_|gh[pousr]_`, "i")

/**
 * Replaces every credential by `[redacted]`, also one that invisible characters or an encoding hide. All other text stays
 * unchanged. Idempotent.
 */
export const redact = (text: string): string =>
  isPlainText(text) && !marker.test(text) ? text : replaceVisible(text, credentials, redactedText)

const authorizationName = /^\s*(?:proxy-)?authorization\s*$/i

const isAuthorization = (name: unknown): boolean =>
  typeof name === "string" && readsAs(name, authorizationName)

type Clean = (text: string) => string

const redactEntries = (entries: Readonly<Record<string, unknown>>, clean: Clean): Record<string, unknown> => {
  const taken = new Set<string>()
  const counts = new Map<string, number>()
  // Two keys that become equal remain two keys.
  const free = (name: string): string => {
    let count = counts.get(name) ?? 1
    let candidate = count === 1 ? name : `${name} ${count}`
    while (taken.has(candidate)) {
      count += 1
      candidate = `${name} ${count}`
    }
    counts.set(name, count)
    taken.add(candidate)
    return candidate
  }
  // A header as `{ name, value }`, as recordings of a browser have it.
  const describesHeader = headerNames.some((name) => isAuthorization(entries[name]))
  return Object.fromEntries(
    Object.entries(entries).map(([name, value]) => [
      free(clean(name)),
      isAuthorization(name)
        ? redactHeader(value, clean)
        : describesHeader && headerValues.includes(name)
          ? redactAfter("authorization: ", value, clean)
          : redactJson(value, clean)
    ])
  )
}

const headerNames = ["name", "key", "header"]
const headerValues = ["value", "values"]

/** A header's value, or all of its values. */
const redactHeader = (value: unknown, clean: Clean): unknown =>
  typeof value === "string"
    ? redactedText
    : Array.isArray(value)
      ? value.map((one) => redactHeader(one, clean))
      : redactJson(value, clean)

/** A value, or all of a list, that follows the name of the header without being its own member: only a credential is removed. */
const redactAfter = (name: string, value: unknown, clean: Clean): unknown =>
  typeof value === "string" && redact(name + value) !== name + value
    ? redactedText
    : Array.isArray(value)
      ? value.map((one) => redactAfter(name, one, clean))
      : redactJson(value, clean)

/** Applies `clean` to every string and every object key of a JSON value. */
export const redactJson = (value: unknown, clean: Clean = redact): unknown => {
  if (typeof value === "string") return clean(value)
  if (Array.isArray(value))
    return value.map((one, at) =>
      isAuthorization(value[at - 1]) ? redactAfter("authorization|", one, clean) : redactJson(one, clean)
    )
  return isObject(value) ? redactEntries(value, clean) : value
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

/** Applies `clean` to every text of a report that a person sent. */
export const redactReport = (content: ReportContent, clean: Clean = redact): ReportContent => ({
  message: clean(content.message),
  pr: content.pr === null ? null : clean(content.pr),
  attachments: content.attachments.map((attachment) => ({
    name: clean(attachment.name),
    content: clean(attachment.content)
  })),
  context: content.context === null ? null : redactEntries(content.context, clean)
})
