/**
 * What the service said about each request, compared with what it kept: of a refused request nothing, of an accepted one its text. That
 * what was acknowledged is there once, and no credential anywhere, is the oracle's.
 */
import { readFileSync } from "node:fs"
import { rowsOf } from "../../world/Oracle.ts"
import type { RawAnswer } from "../../world/RawHttp.ts"
import { type Draft, findCanaries, planeOf, storyOf, valuesIn } from "./Requests.ts"
import type { World } from "./World.ts"

/** The caller did not opt out, and the plane is production (docs/api.md, "POST /api/v1/telemetry"). */
const isRecorded = (draft: Draft): boolean => {
  const preference = valuesIn(draft, "x-music-telemetry").map((value) => value.trim())
  return planeOf(draft) === "production" && (preference.length === 0 || preference.join() === "on")
}

/** The content of the body is kept. */
const isKept = (draft: Draft): boolean => {
  const id = draft.operation?.id ?? ""
  const keeps = ["reports.submit", "tings.send", "webhooks.receive"].includes(id)
  if (draft.message.method !== "POST" || draft.isSyntax) return false
  if (!findCanaries(String(draft.body)).some(({ index }) => index === draft.index)) return false
  return keeps || (id === "telemetry.accept" && isRecorded(draft))
}

/** Where the texts of callers are kept, while nothing is in flight. */
const readKept = ({ database, planes, upstreams }: World): Readonly<Record<string, string>> => {
  const { accepted } = upstreams.ting.controls
  const rows = (statement: string) => rowsOf(database, statement).map((row) => JSON.stringify(row))
  return {
    "a report": rows("SELECT content FROM reports").join("\n"),
    "the inbox of webhooks": rows("SELECT data FROM webhook_inbox").join("\n"),
    "a record": [
      ...upstreams.rows().map((row) => JSON.stringify(row)),
      ...rows("SELECT json FROM spool")
    ].join("\n"),
    "a ting": JSON.stringify(Object.values(planes).map((plane) => accepted(plane))),
    "an issue": JSON.stringify(upstreams.issues()),
    // Every byte, also of free pages.
    "the database": [database, `${database}-wal`].map((file) => readFileSync(file, "latin1")).join("\n")
  }
}

export class Ledger {
  readonly accepted = new Set<number>()
  readonly refused = new Set<number>()
  /** The requests whose text must be there. */
  private readonly due = new Set<number>()
  private readonly stories = new Map<number, string>()

  note(draft: Draft, { status }: RawAnswer): void {
    const { index } = draft
    this.stories.set(index, storyOf(draft))
    if (status >= 300) {
      this.refused.add(index)
      return
    }
    this.accepted.add(index)
    if (isKept(draft)) this.due.add(index)
  }

  /** What is kept of refused requests, and what is lost of accepted ones. */
  *compare(world: World): Generator<string> {
    const kept = new Set<number>()
    for (const [where, text] of Object.entries(readKept(world)))
      for (const { index, place } of findCanaries(text)) {
        if (where !== "the database") kept.add(index)
        const isRefused = this.refused.has(index) && !this.accepted.has(index)
        if (isRefused || place === "h" || place === "p")
          yield `${this.stories.get(index)}: ${isRefused ? "was refused, and " : ""}${where} has its text (${place})`
      }
    for (const index of this.due)
      if (!kept.has(index)) yield `${this.stories.get(index)}: was accepted, and is not kept`
    for (const plane of Object.values(world.planes))
      for (const { for: recipient } of world.upstreams.ting.controls.grants(plane))
        if (!world.people.includes(recipient))
          yield `Ting has the recipient ${recipient}, who sent no request`
  }
}
