/** Takes what has the form of a credential out of text before it is stored (api.md, reports). */
import type { ReportContent } from "./Store.ts"

/** What stands where a credential stood. */
export const redactedText = "[redacted]"

/**
 * Words joined by separators, such as `ask_for_confirmation`: no random token looks like that. Bounded, so that no
 * text makes the look-ahead slow.
 */
const ordinary = (separators: string, token: string) =>
  `(?:[A-Z]?[a-z]{1,15}[${separators}]){0,7}[A-Z]?[a-z]{1,15}[${separators}]{0,3}(?![${token}])`

const familyBody = "A-Za-z0-9_-"
const family = "(?:oat|ort|oac|obo|ask|cat|sat|rft|sup)_"
const secret = "A-Za-z0-9._~+/=-"
const secretWords = ordinary("._~+/=-", secret)
const space = "(?:\\s|%20|\\+){1,8}"
const anyCase = (word: string) => [...word].map((letter) => `[${letter.toUpperCase()}${letter}]`).join("")

const credentials: ReadonlyArray<{ readonly pattern: RegExp; readonly kept: string }> = [
  {
    // A header line, a JSON member (also escaped), a command line: the value goes, the name stays.
    pattern: new RegExp(
      `(${anyCase("authorization")}(?:\\\\?["'])?\\s{0,8}[:=]\\s{0,8}\\[?(?:\\\\?["'])?)` +
        `(?:(?:${["bearer", "basic", "token", "digest", "apikey"].map(anyCase).join("|")})${space}[${secret}]+` +
        `|(?!${secretWords})[${secret}]{16,})`,
      "g"
    ),
    kept: "$1"
  },
  { pattern: new RegExp(`${anyCase("bearer")}${space}(?!${secretWords})[${secret}]{8,}`, "g"), kept: "" },
  { pattern: new RegExp(`(?<![A-Za-z0-9])${family}[${familyBody}]{16,}`, "g"), kept: "" },
  // Behind a letter or digit (an escape, a percent code) words are more likely part of an identifier.
  {
    pattern: new RegExp(`${family}(?!${ordinary("_-", familyBody)})[${familyBody}]{16,}`, "g"),
    kept: ""
  },
  { pattern: /stk-[0-9a-fA-F]{32,}/g, kept: "" },
  { pattern: /table-[a-z0-9]{1,50}-[0-9a-fA-F]{32,}/g, kept: "" },
  { pattern: /github_pat_[A-Za-z0-9_]{16,}/g, kept: "" },
  { pattern: /gh[pousr]_[A-Za-z0-9_]{16,}(?:\.[A-Za-z0-9_-]+)*/g, kept: "" }
]

const redactOnce = (text: string): string =>
  credentials.reduce((clean, { kept, pattern }) => clean.replace(pattern, kept + redactedText), text)

/**
 * The text with every credential replaced by `[redacted]`; all other text stays as it is. Doing it twice changes nothing more.
 * What directly follows a credential may show as one only when that is gone. It ends: every round that changes the text leaves
 * less of what was given.
 */
export const redact = (text: string): string => {
  const clean = redactOnce(text)
  return clean === text ? text : redact(clean)
}

const authorizationName = /^(?:proxy-)?authorization$/i

const redactEntries = (entries: Readonly<Record<string, unknown>>): Record<string, unknown> => {
  const taken = new Set<string>()
  const free = (name: string): string => {
    // Two keys that were two credentials stay two keys.
    let candidate = name
    for (let count = 2; taken.has(candidate); count += 1) candidate = `${name} ${count}`
    taken.add(candidate)
    return candidate
  }
  return Object.fromEntries(
    Object.entries(entries).map(([name, value]) => [
      free(redact(name)),
      authorizationName.test(name) && typeof value === "string" ? redactedText : redactJson(value)
    ])
  )
}

/** Applies `redact` to every string and every object key of a JSON value. */
export const redactJson = (value: unknown): unknown => {
  if (typeof value === "string") return redact(value)
  if (Array.isArray(value)) return value.map(redactJson)
  return isObject(value) ? redactEntries(value) : value
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

/** All of what a person sent with a report, without credentials. */
export const redactReport = (content: ReportContent): ReportContent => ({
  message: redact(content.message),
  pr: content.pr === null ? null : redact(content.pr),
  attachments: content.attachments.map((attachment) => ({
    name: redact(attachment.name),
    content: redact(attachment.content)
  })),
  context: content.context === null ? null : redactEntries(content.context)
})
