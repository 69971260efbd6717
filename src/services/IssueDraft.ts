/**
 * Composes the issue of a report (issue-tracker.md 5): text that a person wrote can neither notify anyone, refer to
 * anything, be rendered, nor pass for our own marker. Never names the reporter.
 */
import { version } from "../schema/Release.ts"
import type { StoredReport } from "./Store.ts"
import type { IssueDraft } from "./Tracker.ts"

/** How large an issue may become: code points of the title, UTF-16 units and UTF-8 bytes of the body and its parts. */
export interface DraftSize {
  readonly title: number
  readonly characters: number
  readonly bytes: number
  /** Of the message, and of the context and each attachment, so that none crowds out the others. */
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
/** For the one repetition after the tracker called a draft too long. */
export const shortSize: DraftSize = {
  title: 60,
  characters: 8_000,
  bytes: 16_000,
  message: 5_000,
  extra: 1_000
}

/** What finds the issue again; stands on the body's last line. */
export const markerOf = (report: Pick<StoredReport, "id" | "marker">): string =>
  `report-ref: ${report.id}-${report.marker}`

const breaker = "\u200B"
const cutMark = "[cut: the stored report holds the rest]"
/** Longest run of a fence character that is left whole; bounds what a fence can cost. */
const longestRun = 60

const lineBreaks = /\r\n?|\v|\f|\u0085|\u2028|\u2029/g
const controls = /(?![\t\n])\p{Cc}/gu
/** Bidi controls, zero-width and other invisible characters, tags, interlinear marks. */
const invisible = /\p{Default_Ignorable_Code_Point}|[\uFFF9-\uFFFB]/gu
const loneSurrogate = /\p{Surrogate}/gu

const plain = (text: string): string =>
  text.replace(lineBreaks, "\n").replace(controls, "").replace(invisible, "").replace(loneSurrogate, "\uFFFD")

/** A mail client shows a reply's quote without its fence, so the text must be harmless on its own. */
const disarm = (text: string): string =>
  text
    .replace(/[@#](?=[\p{L}\p{N}_])/gu, `$&${breaker}`)
    .replace(/\bGH(?=-\d)/gi, `$&${breaker}`)
    .replace(/report(?=-ref)/gi, `$&${breaker}`)
    .replace(new RegExp(`(\`{${longestRun}}|~{${longestRun}})(?=[\`~])`, "g"), `$1${breaker}`)

const utf8 = new TextEncoder()
const byteLength = (text: string): number => utf8.encode(text).length

interface Room {
  readonly characters: number
  readonly bytes: number
}
const take = (room: Room, text: string): Room => ({
  characters: room.characters - text.length,
  bytes: room.bytes - byteLength(text)
})

/** The text, or its beginning and a visible mark when it is longer than the room. Never splits a character. */
const cut = (text: string, room: Room): string => {
  if (text.length <= room.characters && byteLength(text) <= room.bytes) return text
  const left = take(room, `\n${cutMark}`)
  let characters = 0
  let bytes = 0
  for (const point of text) {
    const cost = utf8Cost(point)
    if (characters + point.length > left.characters || bytes + cost > left.bytes) break
    characters += point.length
    bytes += cost
  }
  return `${text.slice(0, characters)}\n${cutMark}`
}

const utf8Cost = (point: string): number => {
  const code = point.codePointAt(0) ?? 0
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4
}

const fenceFor = (text: string): string => {
  const longest = Math.max(0, ...(text.match(/`+/g) ?? []).map((run) => run.length))
  return "`".repeat(Math.max(3, longest + 1))
}

const fenced = (text: string): string => {
  const fence = fenceFor(text)
  return `${fence}text\n${text}\n${fence}`
}

const codeSpan = (text: string): string => `\`${text.replace(/[^A-Za-z0-9._:/+-]/g, "_")}\``

/** Only what no renderer reads anything into. */
const fileName = (name: string): string =>
  codeSpan(name.replace(/[^A-Za-z0-9._-]+/g, "_").slice(0, 80) || "_")

const titleOf = (report: StoredReport, size: DraftSize): string => {
  const firstLine = plain(report.content.message)
    .split("\n")
    .map((line) => line.replace(/\s+/g, " ").trim())
    .find((line) => line !== "")
  const points = [
    ...`[report] ${firstLine ?? report.id}`
      .replace(/[@#]/g, `$&${breaker}`)
      .replace(/\bGH(?=-\d)/gi, `$&${breaker}`)
      .replace(/:(?=\/\/)/g, `$&${breaker}`)
  ]
  return points.length <= size.title ? points.join("") : `${points.slice(0, size.title - 1).join("")}…`
}

interface Part {
  readonly heading: string
  readonly text: string
  readonly characters: number
}

const partsOf = (report: StoredReport, size: DraftSize): ReadonlyArray<Part> => [
  { heading: "", text: report.content.message, characters: size.message },
  ...(report.content.context === null
    ? []
    : [
        {
          heading: "Context:\n\n",
          text: JSON.stringify(report.content.context, undefined, 2),
          characters: size.extra
        }
      ]),
  ...report.content.attachments.map(({ content, name }) => ({
    heading: `Attachment ${fileName(name)}:\n\n`,
    text: content,
    characters: size.extra
  }))
]

/** An issue never names its reporter, not even where they did so themselves. */
const withoutReporter = (report: StoredReport): StoredReport => {
  if (report.reporter._tag !== "Verified") return report
  // Public ids hold nothing that a pattern or JSON would read as its own.
  const name = new RegExp(`(?<![a-z0-9_:-])${report.reporter.publicId}(?![a-z0-9_-])`, "g")
  const clean = (text: string): string => text.replace(name, "[reporter]")
  const { message, pr, attachments, context } = report.content
  return {
    ...report,
    content: {
      message: clean(message),
      pr,
      attachments: attachments.map((attachment) => ({
        name: clean(attachment.name),
        content: clean(attachment.content)
      })),
      context: context === null ? null : JSON.parse(clean(JSON.stringify(context)))
    }
  }
}

interface Composed {
  readonly pieces: string
  readonly room: Room
  readonly skipped: boolean
}

/** Fences, their info string and line breaks of one part, at most. */
const partOverhead = 2 * (longestRun + 2) + 16
const leastText = 200
const leftOut = "\n\n[left out: the stored report holds more]"

/**
 * The issue of a report: at most `size.title` code points of title, at most `size.characters` characters and
 * `size.bytes` bytes of body, metadata, fences and marker included. What does not fit is cut visibly; the marker
 * always stands, whole, on the last line.
 */
export const composeIssue = (signed: StoredReport, size: DraftSize = fullSize): IssueDraft => {
  const report = withoutReporter(signed)
  const head = [
    `- Report: ${codeSpan(report.id)}`,
    `- Backend: ${codeSpan(`music-backend/${version}`)}`,
    `- Source: ${codeSpan(report.source)}`,
    `- Created: ${codeSpan(new Date(report.createdAt).toISOString())}`,
    `- Request: ${codeSpan(report.requestId)}`,
    ...(report.content.pr === null ? [] : [`- Pull request: ${codeSpan(report.content.pr)}`])
  ].join("\n")
  const tail = `\n\n${markerOf(report)}`
  const room = take({ characters: size.characters, bytes: size.bytes }, head + leftOut + tail)
  const { pieces, skipped } = partsOf(report, size).reduce<Composed>(
    (composed, part) => {
      const lead = `\n\n${part.heading}`
      const space = take(composed.room, lead + " ".repeat(partOverhead))
      if (Math.min(space.characters, space.bytes) < leastText)
        return { pieces: composed.pieces, room: composed.room, skipped: true }
      const text = cut(disarm(plain(part.text)), {
        characters: Math.min(space.characters, part.characters),
        bytes: Math.min(space.bytes, part.characters * 3)
      })
      const piece = lead + fenced(text)
      return {
        pieces: composed.pieces + piece,
        room: take(composed.room, piece),
        skipped: composed.skipped
      }
    },
    { pieces: "", room, skipped: false }
  )
  return {
    title: titleOf(report, size),
    body: head + pieces + (skipped ? leftOut : "") + tail
  }
}
