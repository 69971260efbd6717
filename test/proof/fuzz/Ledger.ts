/** What the service said about each request, to be compared with what it kept and with what it did at the upstreams. */
import type { RawAnswer } from "../../world/RawHttp.ts"
import { findCanaries } from "./Canary.ts"
import { deliveredDigest, fieldsOf, type Kept, recordDigest, reportDigest, tingDigest, uuid } from "./Kept.ts"
import { jsonOf } from "./Laws.ts"
import { type Draft, planeOf, storyOf, valuesIn } from "./Requests.ts"

type Problem = readonly [kind: string, text: string]

/** The caller did not opt out, and the plane is production (docs/api.md, "POST /api/v1/telemetry"). */
const isRecorded = (draft: Draft): boolean => {
  const [preference = "on", ...more] = valuesIn(draft, "x-music-telemetry").map((value) => value.trim())
  return (
    preference === "on" &&
    more.length === 0 &&
    !["dnt", "sec-gpc"].some((name) => valuesIn(draft, name).length > 0) &&
    planeOf(draft) === "production"
  )
}

/** Digests of the events that hold the text of their request: by id, and of those without one. Undefined: redacted. */
interface Events {
  readonly byId: Map<string, string | undefined>
  readonly others: Array<string | undefined>
}

const addEvents = (draft: Draft, known: Events): void => {
  // The body was accepted, so it fits its schema.
  const { events } = fieldsOf(String(draft.body)) as {
    readonly events: ReadonlyArray<Readonly<Record<string, unknown>>>
  }
  for (const event of events) {
    if (!findCanaries(JSON.stringify(event)).some(({ index }) => index === draft.index)) continue
    const digest = draft.isChanged ? undefined : recordDigest(event)
    if (typeof event.id === "string" && uuid.test(event.id)) {
      const id = event.id.toLowerCase()
      if (!known.byId.has(id)) known.byId.set(id, digest)
    } else known.others.push(digest)
  }
}

const tokenNames: Readonly<Record<string, string>> = {
  "auth.login": "slt",
  "auth.refresh": "refresh_token",
  "auth.logout": "token"
}

/** What a request asks an upstream for: the token that it spends, or the plane and key of its ting. */
const actOf = (draft: Draft): string | undefined => {
  const { body, operation } = draft
  const fields = fieldsOf(String(body))
  const value = fields[operation?.id === "tings.send" ? "key" : (tokenNames[operation?.id ?? ""] ?? "")]
  if (typeof value !== "string") return undefined
  return operation?.id === "tings.send" ? `${planeOf(draft)} ${value}` : value
}

export class Ledger {
  readonly accepted = new Set<number>()
  readonly refused = new Set<number>()
  /** Requests without an answer: what they asked for is done once or not at all. */
  private unanswered = 0
  private readonly again = new Set<number>()
  private readonly perhaps = new Set<string>()
  private readonly refusedActs = new Map<string, string>()
  private readonly acceptedActs = new Set<string>()
  /** Tokens of the accepted requests that IAM has to exchange, or to revoke. */
  private readonly due = { spent: new Set<string>(), revoked: new Set<string>() }
  private readonly tings = new Map<string, string | undefined>()
  private readonly reports = new Map<string, string | undefined>()
  private readonly deliveries = new Map<string, string | undefined>()
  private readonly events = new Map<number, Events>()
  private readonly stories = new Map<number | string, string>()

  noteUnanswered(draft: Draft): void {
    this.unanswered += 1
    this.noteUnknown(draft)
  }

  /** A request that is sent again because its connection ended first: the server perhaps did it before, too. */
  noteAgain(draft: Draft): void {
    this.again.add(draft.index)
    this.noteUnknown(draft)
  }

  private noteUnknown(draft: Draft): void {
    const act = actOf(draft)
    if (act !== undefined) this.perhaps.add(act)
  }

  note(draft: Draft, answer: RawAnswer): void {
    const { index } = draft
    this.stories.set(index, storyOf(draft))
    const act = actOf(draft)
    if (answer.status >= 300) {
      this.refused.add(index)
      if (act !== undefined) this.refusedActs.set(act, storyOf(draft))
      return
    }
    this.accepted.add(index)
    if (draft.message.method !== "POST") return
    if (act !== undefined) this.noteAct(draft, act)
    this.noteContent(draft, answer)
  }

  /** What an accepted request does at IAM or Ting. */
  private noteAct({ body, isChanged, operation, session }: Draft, act: string): void {
    if (operation?.id === "tings.send") {
      this.tings.set(act, isChanged ? undefined : tingDigest(fieldsOf(String(body)), session?.actor))
      return
    }
    this.acceptedActs.add(act)
    if (operation?.id !== "auth.logout") this.due.spent.add(act)
    else if (act === session?.access || act === session?.refresh) this.due.revoked.add(act)
  }

  private keep(own: Map<string, string | undefined>, id: string, draft: Draft, digest: string): void {
    own.set(id, draft.isChanged ? undefined : digest)
    this.stories.set(id, storyOf(draft))
  }

  private noteContent(draft: Draft, answer: RawAnswer): void {
    const { index, isSyntax, operation } = draft
    const value = jsonOf(answer)
    const fields = fieldsOf(String(draft.body))
    if (operation?.id === "reports.submit" && typeof value === "object" && value !== null && "id" in value)
      this.keep(this.reports, String(value.id), draft, reportDigest(fields))
    if (operation?.id === "webhooks.receive")
      for (const id of valuesIn(draft, "x-silicon-iam-event-id"))
        this.keep(this.deliveries, id.trim(), draft, deliveredDigest(fields))
    if (operation?.id === "telemetry.accept" && !isSyntax) {
      const before = this.events.get(index) ?? { byId: new Map(), others: [] }
      if (isRecorded(draft)) addEvents(draft, before)
      this.events.set(index, before)
    }
  }

  /** What is kept of refused requests, lost or changed of accepted ones, or there twice: a kind and a text each. */
  *compare(kept: Kept, ownSlts: ReadonlySet<string>, people: ReadonlyArray<string>): Generator<Problem> {
    for (const { index, place, where } of kept.canaries.values())
      if (this.refused.has(index) && !this.accepted.has(index))
        yield [
          `stored ${where}`,
          `${this.stories.get(index)}: was refused, and ${where} has its text (${place})`
        ]
      else if (place === "h" || place === "p")
        yield [`stored ${where} ${place}`, `${this.stories.get(index)}: ${where} has its text (${place})`]
    for (const found of kept.credentials)
      yield ["stored credential", `the database has a credential: ${found}`]
    for (const [kind, own, all] of [
      ["report", this.reports, kept.reports],
      ["event", this.deliveries, kept.deliveries]
    ] as const) {
      for (const [id, digest] of own)
        if (!all.has(id))
          yield [`lost ${kind}`, `${this.stories.get(id)}: was accepted, and its ${kind} is not stored`]
        else if (digest !== undefined && all.get(id) !== digest)
          yield [`changed ${kind}`, `${this.stories.get(id)}: its ${kind} is not stored as it was sent`]
      if (all.size > own.size + this.unanswered)
        yield [`${kind}s`, `${all.size} ${kind}s are stored, and ${own.size} were accepted`]
    }
    yield* this.compareEvents(kept)
    yield* this.compareActs(kept, ownSlts)
    yield* this.compareTings(kept)
    for (const recipient of kept.registered)
      if (!people.includes(recipient.replace(/^\S+ /, "")))
        yield ["registered", `Ting has the recipient ${recipient}, who sent no request`]
  }

  private *compareEvents({ records }: Kept): Generator<Problem> {
    for (const [index, { byId, others }] of this.events) {
      const expected = [...byId.values(), ...others]
      const found = records.get(index) ?? []
      // An event without a UUID is another one each time.
      const most = expected.length + (this.again.has(index) ? others.length : 0)
      const story = this.stories.get(index)
      if (found.length < expected.length || found.length > most)
        yield [
          "telemetry",
          `${story}: brought ${expected.length} telemetry events, and ${found.length} are stored`
        ]
      else if (
        !expected.includes(undefined) &&
        (!expected.every((digest) => digest !== undefined && found.includes(digest)) ||
          !found.every((digest) => expected.includes(digest)))
      )
        yield ["changed telemetry", `${story}: an event is not stored as it was sent`]
    }
  }

  private whyNot(act: string): string {
    const story = this.refusedActs.get(act)
    return story === undefined ? "no request asked for it" : `${story}: was refused`
  }

  private *compareActs(kept: Kept, ownSlts: ReadonlySet<string>): Generator<Problem> {
    for (const verb of ["spent", "revoked"] as const) {
      for (const token of kept[verb])
        if (!this.acceptedActs.has(token) && !ownSlts.has(token) && !this.perhaps.has(token))
          yield [`IAM ${verb}`, `${this.whyNot(token)}, and IAM ${verb} its ${token.slice(0, 4)} token`]
      for (const token of this.due[verb])
        if (!kept[verb].has(token))
          yield [`IAM not ${verb}`, `IAM has not ${verb} an ${token.slice(0, 4)} token that was accepted`]
    }
  }

  private *compareTings({ tings }: Kept): Generator<Problem> {
    for (const [slot, digests] of tings) {
      const expected = this.tings.get(slot)
      if (!this.tings.has(slot) && !this.perhaps.has(slot))
        yield ["ting", `${this.whyNot(slot)}, and Ting has its ting ${slot.slice(0, 80)}`]
      if (digests.length > 1) yield ["tings", `Ting has ${digests.length} tings ${slot.slice(0, 80)}`]
      else if (expected !== undefined && digests[0] !== expected)
        yield ["changed ting", `Ting has other content of ${slot.slice(0, 80)}`]
    }
    for (const slot of this.tings.keys())
      if (!tings.has(slot)) yield ["lost ting", `Ting has no ting ${slot.slice(0, 80)}`]
  }
}
