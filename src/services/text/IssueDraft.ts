/**
 * Composes the issue of a report (issue-tracker.md 5). Text that a person wrote can neither notify anyone, refer to anything, be
 * rendered, nor imitate our own marker. The steps are: normalise, redact, anonymise, neutralise markup, cut. Each step works on the
 * whole result of the step before.
 */
import { version } from "../../schema/Release.ts"
import { redact, redactedText } from "./Redaction.ts"
import type { Reporter, StoredReport } from "../Store.ts"
import { findPattern, normaliseText, repeatUntilStable, replaceVisible } from "./VisibleText.ts"
import type { IssueDraft } from "../Tracker.ts"

/** Limits of an issue: code points of the title, UTF-16 units of the body and its parts. A unit has at most three bytes of UTF-8. */
export interface DraftSize {
  readonly title: number
  readonly characters: number
  /** Of the message, and of the context and each attachment, so that no part displaces the others. */
  readonly message: number
  readonly extra: number
}
/** Within the tracker's 200,000 bytes. */
export const fullSize: DraftSize = { title: 120, characters: 60_000, message: 40_000, extra: 16_000 }
/** For the single retry after the tracker refused a draft as too long (issue-tracker.md 3). */
export const shortSize: DraftSize = { title: 60, characters: 5_000, message: 3_000, extra: 1_000 }

/** The text by which the issue is found again: the last line of the body. */
export const markerOf = (report: Pick<StoredReport, "id" | "marker">): string =>
  `report-ref: ${report.id}-${report.marker}`

const breaker = "\u200B"
const cutMark = "[cut: the stored report holds the rest]"

/**
 * The id wherever it is visible, in any letter case and after any character. Followed by a letter or digit it is another id, unless a
 * further id begins there. `_` counts as the colon where no letter or digit precedes the id, as in file names.
 */
const nameOf = (publicId: string): RegExp => {
  const [kind = "", handle = ""] = publicId.split(":")
  // Public ids contain no character that is special in a pattern.
  return new RegExp(`(?:${kind}:|(?<![a-z0-9])${kind}_)${handle}(?:(?![a-z0-9])|(?=(?:c|si):))`, "giu")
}

/**
 * Anything in the form of a public id that is not preceded by a letter or digit, of any length, and with the ids that begin inside
 * its last letters.
 */
const anyName = /(?<![a-z0-9])(?:c|si)[:_][a-z0-9_-]{3,}(?:(?<=c|si):[a-z0-9_-]{3,})*/giu

/**
 * Replaces the reporter's id. An anonymous reporter has no id to remove; of a reporter who is not verified every public id is removed.
 */
export const anonymise = (text: string, reporter: Reporter): string => {
  if (reporter._tag === "Anonymous") return text
  const name = reporter._tag === "Verified" ? nameOf(reporter.publicId) : anyName
  return replaceVisible(text, findPattern(name), "[reporter]")
}

/** Removes credentials and the reporter's id. */
type Clean = (text: string) => string

/** A character reference as Markdown decodes it, before it looks for mentions (issue-tracker.md 5). */
const characterReference = /&(?=(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});)/gi

/** Breaks mentions, references, markers and fences. A mail client quotes text without its fence, so it must be harmless on its own. */
const neutralise = (text: string): string =>
  text
    .replace(characterReference, `$&${breaker}`)
    .replace(/[@#](?=[\p{L}\p{N}_&])/gu, `$&${breaker}`)
    .replace(/\bGH(?=\\?-\d)/gi, `$&${breaker}`)
    .replace(/report(?=\\?-ref)/gi, `$&${breaker}`)
    .replace(/``(?=`)/g, `$&${breaker}`)

/**
 * The beginning of a text that is clean. The cut may make another id into the reporter's; what takes its place is cut, too. Never splits a
 * character.
 */
const headOf = (text: string, end: number, clean: Clean): string =>
  clean(text.slice(0, end))
    .slice(0, end)
    .replace(/[\uD800-\uDBFF]$/, "")

/** The text, or its beginning and a visible mark when it does not fit. */
const cut = (text: string, room: number, clean: Clean): string =>
  text.length <= room ? text : `${headOf(text, room - cutMark.length - 1, clean)}\n${cutMark}`

/** The text holds no fence, see `neutralise`. */
const fenced = (text: string): string => `\`\`\`text\n${text}\n\`\`\``

/** A code span of what no renderer interprets. Cleaned again after each replacement, which may form a credential or the reporter's id. */
const codeSpan = (text: string, clean: Clean): string =>
  `\`${repeatUntilStable(text, (given) => clean(given).replace(/[^A-Za-z0-9._:/+-]+/g, "_"), "_") || "_"}\``

const composeTitle = (report: StoredReport, message: string, clean: Clean, size: DraftSize): string => {
  const firstLine = message
    .split("\n")
    .map((line) => line.replace(/\s+/g, " ").trim())
    .find((line) => line !== "")
  const title = neutralise(`[report] ${firstLine === undefined ? report.id : clean(firstLine)}`).replace(
    /:(?=\/\/)/g,
    `$&${breaker}`
  )
  const points = [...title]
  return points.length <= size.title
    ? title
    : `${headOf(title, points.slice(0, size.title - 1).join("").length, clean)}…`
}

const leastText = 200
const leftOut = "\n\n[left out: the stored report holds more]"

/**
 * The issue of a report: at most `size.title` code points of title and `size.characters` characters of body, metadata, fences and marker
 * included. Text that does not fit is cut visibly; the marker is always complete, on the last line.
 */
export const composeIssue = (report: StoredReport, size: DraftSize = fullSize): IssueDraft => {
  const clean: Clean = (text) =>
    repeatUntilStable(text, (given) => anonymise(redact(given), report.reporter), redactedText)
  const visible: Clean = (text) => clean(normaliseText(text))
  const span = (text: string): string => codeSpan(text, visible)
  const { attachments, context, pr } = report.content
  const message = visible(report.content.message)
  const head = [
    `- Report: ${span(report.id)}`,
    `- Backend: ${span(`music-backend/${version}`)}`,
    `- Source: ${span(report.source)}`,
    `- Created: ${span(new Date(report.createdAt).toISOString())}`,
    `- Request: ${span(report.requestId)}`,
    ...(pr === null ? [] : [`- Pull request: ${span(pr)}`])
  ].join("\n")
  const parts: ReadonlyArray<readonly [heading: string, text: string, characters: number]> = [
    ["", message, size.message],
    ...(context === null
      ? []
      : [["Context:\n\n", visible(JSON.stringify(context, undefined, 2)), size.extra] as const]),
    ...attachments.map(
      ({ content, name }) => [`Attachment ${span(name)}:\n\n`, visible(content), size.extra] as const
    )
  ]
  const tail = `\n\n${markerOf(report)}`
  let body = head
  let skipped = ""
  for (const [heading, text, characters] of parts) {
    const lead = `\n\n${heading}`
    const taken = body.length + lead.length + fenced("").length + leftOut.length + tail.length
    const room = Math.min(size.characters - taken, characters)
    if (room < leastText) skipped = leftOut
    else body += lead + fenced(cut(neutralise(text), room, clean))
  }
  return { title: composeTitle(report, message, clean, size), body: body + skipped + tail }
}
