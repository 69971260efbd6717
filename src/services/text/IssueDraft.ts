/**
 * Composes the issue of a report (issue-tracker.md 5). Text that a person wrote can neither notify anyone, refer to anything, be
 * rendered, nor imitate our own marker. The steps are: normalise, redact, anonymise, neutralise markup, cut. Each step works on the
 * whole result of the step before.
 */
import { version } from "../../schema/Release.ts"
import { anonymise, anonymiseAll } from "./Anonymisation.ts"
import { redact, redactReport } from "./Redaction.ts"
import type { ReportContent, Reporter, StoredReport } from "../Store.ts"
import { normaliseText, repeatUntilStable } from "./VisibleText.ts"
import type { IssueDraft } from "../Tracker.ts"

/** Limits of an issue: code points of the title, UTF-16 units and UTF-8 bytes of the body and its parts. */
export interface DraftSize {
  readonly title: number
  readonly characters: number
  readonly bytes: number
  /** UTF-16 units of the message, and of the context and each attachment, so that no part displaces the others. */
  readonly message: number
  readonly extra: number
}
export const fullSize: DraftSize = {
  title: 120,
  characters: 60_000,
  bytes: 200_000,
  message: 40_000,
  extra: 16_000
}
/** For the single retry after the tracker rejected a draft as too long. */
export const shortSize: DraftSize = {
  title: 60,
  characters: 8_000,
  bytes: 16_000,
  message: 5_000,
  extra: 1_000
}

/** The text by which the issue is found again: the last line of the body. */
export const markerOf = (report: Pick<StoredReport, "id" | "marker">): string =>
  `report-ref: ${report.id}-${report.marker}`

const breaker = "\u200B"
const cutMark = "[cut: the stored report holds the rest]"
/** Longest run of a fence character that is left whole; bounds the length of a fence. */
const longestRun = 60

type Clean = (text: string) => string

/** An anonymous reporter has no id to remove. For a reporter who is not verified every public id is removed. */
const makeAnonymiser = (reporter: Reporter): Clean => {
  switch (reporter._tag) {
    case "Anonymous":
      return (text) => text
    case "Verified":
      return (text) => anonymise(text, reporter.publicId)
    case "Unverified":
      return anonymiseAll
  }
}

/** Text as an issue may show it: without invisible characters, credentials and the reporter's id. */
const makeCleaner = ({ reporter }: StoredReport): Clean => {
  const anonymiseReporter = makeAnonymiser(reporter)
  const clean: Clean = (text) => anonymiseReporter(redact(text))
  return (text) => repeatUntilStable(normaliseText(text), clean)
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

interface Room {
  readonly characters: number
  readonly bytes: number
}
const subtract = (room: Room, text: string): Room => ({
  characters: room.characters - text.length,
  bytes: room.bytes - Buffer.byteLength(text)
})

/** The beginning of a text, shortened until the cut creates no new match: half of another id may be the reporter's. */
const cutSafely = (text: string, end: number, clean: Clean): string => {
  const head = text.slice(0, end)
  if (end >= text.length || clean(head) === normaliseText(head)) return head
  return cutSafely(text, head.length - (/.$/su.exec(head)?.[0].length ?? 1), clean)
}

/** The text, or its beginning and a visible mark when it does not fit. Never splits a character. */
const cut = (text: string, room: Room, clean: Clean): string => {
  if (text.length <= room.characters && Buffer.byteLength(text) <= room.bytes) return text
  const left = subtract(room, `\n${cutMark}`)
  let characters = 0
  let bytes = 0
  for (const point of text) {
    const cost = Buffer.byteLength(point)
    if (characters + point.length > left.characters || bytes + cost > left.bytes) break
    characters += point.length
    bytes += cost
  }
  return `${cutSafely(text, characters, clean)}\n${cutMark}`
}

const makeFence = (text: string): string => {
  const longest = Math.max(0, ...(text.match(/`+/g) ?? []).map((run) => run.length))
  return "`".repeat(Math.max(3, longest + 1))
}

const fenced = (text: string): string => {
  const fence = makeFence(text)
  return `${fence}text\n${text}\n${fence}`
}

const unsafeInSpan = /[^A-Za-z0-9._:/+-]/g
const unsafeInName = /[^A-Za-z0-9._-]+/g
const codeSpan = (text: string): string => `\`${text.replace(unsafeInSpan, "_")}\``

/** Cleaned again after the replacement, which may form a credential or the reporter's id. */
const safeText = (text: string, unsafe: RegExp, clean: Clean): string =>
  repeatUntilStable(text, (given) => clean(given).replace(unsafe, "_"))

/** A file name without characters that a renderer interprets. */
const fileName = (name: string, clean: Clean): string =>
  codeSpan(cutSafely(safeText(name, unsafeInName, clean), 80, clean) || "_")

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
    : `${cutSafely(title, points.slice(0, size.title - 1).join("").length, clean)}…`
}

interface Part {
  readonly heading: string
  readonly text: string
  readonly characters: number
}

const toParts = (content: ReportContent, clean: Clean, size: DraftSize): ReadonlyArray<Part> => [
  { heading: "", text: content.message, characters: size.message },
  ...(content.context === null
    ? []
    : [
        {
          heading: "Context:\n\n",
          // Every string is clean already; a name and its value together may form a header.
          text: clean(JSON.stringify(content.context, undefined, 2)),
          characters: size.extra
        }
      ]),
  ...content.attachments.map(({ content, name }) => ({
    heading: `Attachment ${fileName(name, clean)}:\n\n`,
    text: content,
    characters: size.extra
  }))
]

/** Fences, their info string and line breaks of one part, at most. */
const partOverhead = 2 * (longestRun + 2) + 16
const leastText = 200
const leftOut = "\n\n[left out: the stored report holds more]"

/**
 * The issue of a report: at most `size.title` code points of title, at most `size.characters` characters and
 * `size.bytes` bytes of body, metadata, fences and marker included. Text that does not fit is cut visibly; the marker
 * is always complete, on the last line.
 */
export const composeIssue = (report: StoredReport, size: DraftSize = fullSize): IssueDraft => {
  const clean = makeCleaner(report)
  const content = redactReport(report.content, clean)
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
  let room = subtract({ characters: size.characters, bytes: size.bytes }, head + leftOut + tail)
  let pieces = ""
  let skipped = false
  for (const part of toParts(content, clean, size)) {
    const lead = `\n\n${part.heading}`
    const space = subtract(room, lead + " ".repeat(partOverhead))
    if (Math.min(space.characters, space.bytes) < leastText) {
      skipped = true
      continue
    }
    const characters = Math.min(space.characters, part.characters)
    const bytes = Math.min(space.bytes, part.characters * 3)
    const piece = lead + fenced(cut(neutralise(part.text), { characters, bytes }, clean))
    pieces += piece
    room = subtract(room, piece)
  }
  return {
    title: composeTitle(report, content.message, clean, size),
    body: head + pieces + (skipped ? leftOut : "") + tail
  }
}
