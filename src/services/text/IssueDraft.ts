/**
 * Composes the issue of a report (issue-tracker.md 5). Text that a person wrote can neither notify anyone, refer to anything, be
 * rendered, nor imitate our own marker. The steps are: normalise, redact, anonymise, neutralise markup, cut. Each step works on the
 * whole result of the step before.
 */
import { version } from "../../schema/Release.ts"
import { anonymise, anonymiseAll } from "./Anonymisation.ts"
import { redact, redactedText, redactReport } from "./Redaction.ts"
import type { ReportContent, StoredReport } from "../Store.ts"
import { normaliseText, repeatUntilStable } from "./VisibleText.ts"
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
/** Longest run of a fence character that is left whole; bounds the length of a fence. */
const longestRun = 60

type Clean = (text: string) => string

/**
 * Removes credentials and the reporter's id. An anonymous reporter has no id to remove; of a reporter who is not verified every public id
 * is removed.
 */
const makeCleaner = ({ reporter }: StoredReport): Clean => {
  const anonymised: Clean = (text) => {
    if (reporter._tag === "Anonymous") return text
    return reporter._tag === "Verified" ? anonymise(text, reporter.publicId) : anonymiseAll(text)
  }
  return (text) => repeatUntilStable(text, (given) => anonymised(redact(given)), redactedText)
}

const longRun = new RegExp(`(\`{${longestRun}}|~{${longestRun}})(?=[\`~])`, "g")

/** A character reference as Markdown decodes it, before it looks for mentions (issue-tracker.md 5). */
const characterReference = /&(?=(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});)/gi

/** Breaks mentions, references and markers. A mail client quotes text without its fence, so it must be harmless on its own. */
const neutralise = (text: string): string =>
  text
    .replace(characterReference, `$&${breaker}`)
    .replace(/[@#](?=[\p{L}\p{N}_&])/gu, `$&${breaker}`)
    .replace(/\bGH(?=\\?-\d)/gi, `$&${breaker}`)
    .replace(/report(?=\\?-ref)/gi, `$&${breaker}`)
    .replace(longRun, `$1${breaker}`)

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

const fenced = (text: string): string => {
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length))
  const fence = "`".repeat(longest + 1)
  return `${fence}text\n${text}\n${fence}`
}

const unsafeInSpan = /[^A-Za-z0-9._:/+-]/g
const unsafeInName = /[^A-Za-z0-9._-]+/g
const codeSpan = (text: string): string => `\`${text.replace(unsafeInSpan, "_")}\``

/** Cleaned again after the replacement, which may form a credential or the reporter's id. */
const safeText = (text: string, unsafe: RegExp, clean: Clean): string =>
  repeatUntilStable(text, (given) => clean(given).replace(unsafe, "_"), "_")

/** A file name without characters that a renderer interprets. */
const fileName = (name: string, clean: Clean): string =>
  codeSpan(headOf(safeText(name, unsafeInName, clean), 80, clean) || "_")

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

interface Part {
  readonly heading: string
  readonly text: string
  readonly characters: number
}

const toParts = (
  { attachments, context, message }: ReportContent,
  clean: Clean,
  { extra, message: most }: DraftSize
): ReadonlyArray<Part> => [
  { heading: "", text: message, characters: most },
  // Every string is clean already; a name and its value together may form a header.
  ...(context === null
    ? []
    : [{ heading: "Context:\n\n", text: clean(JSON.stringify(context, undefined, 2)), characters: extra }]),
  ...attachments.map(({ content, name }) => ({
    heading: `Attachment ${fileName(name, clean)}:\n\n`,
    text: content,
    characters: extra
  }))
]

/** Fences, their info string and line breaks of one part, at most. */
const partOverhead = 2 * (longestRun + 2) + 16
const leastText = 200
const leftOut = "\n\n[left out: the stored report holds more]"

/**
 * The issue of a report: at most `size.title` code points of title and `size.characters` characters of body, metadata, fences and marker
 * included. Text that does not fit is cut visibly; the marker is always complete, on the last line.
 */
export const composeIssue = (report: StoredReport, size: DraftSize = fullSize): IssueDraft => {
  const clean = makeCleaner(report)
  const content = redactReport(report.content, (text) => clean(normaliseText(text)))
  const givenSpan = (text: string): string => codeSpan(safeText(text, unsafeInSpan, clean))
  const head = [
    `- Report: ${codeSpan(report.id)}`,
    `- Backend: ${codeSpan(`music-backend/${version}`)}`,
    `- Source: ${codeSpan(report.source)}`,
    `- Created: ${codeSpan(new Date(report.createdAt).toISOString())}`,
    `- Request: ${givenSpan(report.requestId)}`,
    ...(content.pr === null ? [] : [`- Pull request: ${givenSpan(content.pr)}`])
  ].join("\n")
  const tail = `\n\n${markerOf(report)}`
  let body = head
  let skipped = ""
  for (const { characters, heading, text } of toParts(content, clean, size)) {
    const lead = `\n\n${heading}`
    const taken = body.length + lead.length + partOverhead + leftOut.length + tail.length
    const room = Math.min(size.characters - taken, characters)
    if (room < leastText) skipped = leftOut
    else body += lead + fenced(cut(neutralise(text), room, clean))
  }
  return { title: composeTitle(report, content.message, clean, size), body: body + skipped + tail }
}
