/** What the service said about each request, to be compared with what it kept. */
import type { Answer } from "./Answers.ts"
import { findCanaries } from "./Canary.ts"
import { type Draft, headerOf } from "./Draft.ts"
import { jsonOf } from "./Laws.ts"
import type { Stored } from "./Stored.ts"

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** The caller did not opt out, and the plane is production (docs/api.md, "POST /api/v1/telemetry"). */
const isRecorded = (draft: Draft): boolean => {
  const [preference = "on", ...more] = headerOf(draft, "x-music-telemetry").map((value) => value.trim())
  return (
    preference === "on" &&
    more.length === 0 &&
    !["dnt", "sec-gpc"].some((name) => headerOf(draft, name).length > 0) &&
    headerOf(draft, "x-testing-environment-key").length === 0
  )
}

/** The events of a body that hold the text of their request: ids, and the number of those without one. */
const eventsOf = (draft: Draft): { readonly ids: ReadonlyArray<string>; readonly others: number } => {
  const body: unknown = JSON.parse(String(draft.body))
  // The body was accepted, so it fits its schema.
  const { events } = body as { readonly events: ReadonlyArray<Readonly<Record<string, unknown>>> }
  const own = events.filter((event) =>
    findCanaries(JSON.stringify(event)).some(({ index }) => index === draft.index)
  )
  const ids = own.flatMap(({ id }) => (typeof id === "string" && uuid.test(id) ? [id.toLowerCase()] : []))
  return { ids, others: own.length - ids.length }
}

export class Ledger {
  readonly accepted = new Set<number>()
  readonly refused = new Set<number>()
  /** Requests without an answer: what they asked for is done once or not at all. */
  unanswered = 0
  /** Requests that were sent again because their connection ended first: the server perhaps did them before, too. */
  readonly again = new Set<number>()
  private readonly reports = new Set<string>()
  private readonly deliveries = new Set<string>()
  private readonly events = new Map<number, { readonly ids: Set<string>; others: number }>()

  note(draft: Draft, answer: Answer): void {
    const { index, operation } = draft
    if (answer.status >= 300) {
      this.refused.add(index)
      return
    }
    this.accepted.add(index)
    if (draft.method !== "POST") return
    const value = jsonOf(answer)
    if (operation?.id === "reports.submit" && typeof value === "object" && value !== null && "id" in value)
      this.reports.add(String(value.id))
    if (operation?.id === "webhooks.receive")
      for (const id of headerOf(draft, "x-silicon-iam-event-id")) this.deliveries.add(id.trim())
    if (operation?.id === "telemetry.accept" && draft.malformed === undefined) {
      const before = this.events.get(index) ?? { ids: new Set(), others: 0 }
      if (isRecorded(draft)) {
        const { ids, others } = eventsOf(draft)
        for (const id of ids) before.ids.add(id)
        before.others += others
      }
      this.events.set(index, before)
    }
  }

  /** What is kept of refused requests, lost of accepted ones, or there twice: a kind and a text each. */
  compare(stored: Stored): ReadonlyArray<readonly [kind: string, text: string]> {
    const problems: Array<readonly [string, string]> = []
    for (const { index, place, where } of stored.canaries.values()) {
      if (this.refused.has(index) && !this.accepted.has(index))
        problems.push([
          `stored ${where}`,
          `request ${index} was refused, and ${where} has its text (${place})`
        ])
      else if (place === "h" || place === "p")
        problems.push([`stored ${where} ${place}`, `${where} has a text (${place}) of request ${index}`])
    }
    for (const start of stored.credentials)
      problems.push(["stored credential", `the database has a credential: ${start}…`])
    for (const [kind, own, kept] of [
      ["report", this.reports, stored.reports],
      ["event", this.deliveries, stored.deliveries]
    ] as const) {
      for (const id of own)
        if (!kept.has(id)) problems.push([`lost ${kind}`, `the ${kind} ${id} was accepted and is not stored`])
      if (kept.size > own.size + this.unanswered)
        problems.push([`${kind}s`, `${kept.size} ${kind}s are stored, and ${own.size} were accepted`])
    }
    for (const [index, { ids, others }] of this.events) {
      const expected = ids.size + others
      // An event without a UUID is another one each time.
      const most = expected + (this.again.has(index) ? others : 0)
      const found = stored.records.get(index) ?? 0
      if (found < expected || found > most)
        problems.push([
          "telemetry",
          `request ${index} brought ${expected} telemetry events, and ${found} are stored`
        ])
    }
    return problems
  }
}
