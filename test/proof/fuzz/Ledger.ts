/** What the service said about each request, to be compared with what it kept and with what it did at the upstreams. */
import type { Answer } from "./Answers.ts"
import { findCanaries } from "./Canary.ts"
import { deliveredDigest, fieldsOf, recordDigest, reportDigest, tingDigest } from "./Content.ts"
import { type Draft, headerOf } from "./Draft.ts"
import { jsonOf } from "./Laws.ts"
import type { Stored } from "./Stored.ts"
import type { AtUpstreams } from "./Upstream.ts"

type Problem = readonly [kind: string, text: string]

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

const planeOf = (draft: Draft): string =>
  headerOf(draft, "x-testing-environment-key").length > 0 ? "testing" : "production"

/** The caller did not opt out, and the plane is production (docs/api.md, "POST /api/v1/telemetry"). */
const isRecorded = (draft: Draft): boolean => {
  const [preference = "on", ...more] = headerOf(draft, "x-music-telemetry").map((value) => value.trim())
  return (
    preference === "on" &&
    more.length === 0 &&
    !["dnt", "sec-gpc"].some((name) => headerOf(draft, name).length > 0) &&
    planeOf(draft) === "production"
  )
}

/** Its text is redacted, or a changed byte lies in one of its chunks: so it is not kept as the draft has it. */
const isChanged = ({ framing, malformed, mutations }: Draft): boolean =>
  mutations.some((name) => name.includes("a credential in a text")) ||
  (malformed !== undefined && framing.kind !== "length")

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
    const digest = isChanged(draft) ? undefined : recordDigest(event)
    if (typeof event.id === "string" && uuid.test(event.id)) {
      const id = event.id.toLowerCase()
      if (!known.byId.has(id)) known.byId.set(id, digest)
    } else known.others.push(digest)
  }
}

/** The token that a login, a refresh or a logout spends. */
const tokenOf = ({ body, operation }: Draft): string | undefined => {
  const name = { "auth.login": "slt", "auth.refresh": "refresh_token", "auth.logout": "token" }[
    operation?.id ?? ""
  ]
  const token = name === undefined ? undefined : fieldsOf(String(body))[name]
  return typeof token === "string" ? token : undefined
}

/** Plane and key of a ting. */
const slotOf = (draft: Draft): string | undefined => {
  if (draft.operation?.id !== "tings.send") return undefined
  const { key } = fieldsOf(String(draft.body))
  return typeof key === "string" ? `${planeOf(draft)} ${key}` : undefined
}

export class Ledger {
  readonly accepted = new Set<number>()
  readonly refused = new Set<number>()
  /** Requests without an answer: what they asked for is done once or not at all. */
  private unanswered = 0
  private readonly again = new Set<number>()
  private readonly perhaps = new Set<string>()
  /** Requests by token, and by plane and key of a ting. */
  private readonly refusedAt = new Map<string, number>()
  private readonly tokens = new Set<string>()
  /** Tokens of the accepted requests that IAM has to exchange, or to revoke. */
  private readonly due = { spent: new Set<string>(), revoked: new Set<string>() }
  private readonly tings = new Map<string, string | undefined>()
  private readonly reports = new Map<string, string | undefined>()
  private readonly deliveries = new Map<string, string | undefined>()
  private readonly events = new Map<number, Events>()

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
    for (const act of [tokenOf(draft), slotOf(draft)]) if (act !== undefined) this.perhaps.add(act)
  }

  note(draft: Draft, answer: Answer): void {
    const { index } = draft
    if (answer.status >= 300) {
      this.refused.add(index)
      for (const act of [tokenOf(draft), slotOf(draft)]) if (act !== undefined) this.refusedAt.set(act, index)
      return
    }
    this.accepted.add(index)
    if (draft.method !== "POST") return
    this.noteAct(draft)
    this.noteContent(draft, answer)
  }

  /** What an accepted request does at IAM or Ting. */
  private noteAct(draft: Draft): void {
    const { operation, session } = draft
    const token = tokenOf(draft)
    if (token !== undefined) {
      this.tokens.add(token)
      if (operation?.id !== "auth.logout") this.due.spent.add(token)
      else if (token === session?.access || token === session?.refresh) this.due.revoked.add(token)
    }
    const slot = slotOf(draft)
    if (slot !== undefined)
      this.tings.set(
        slot,
        isChanged(draft) ? undefined : tingDigest(fieldsOf(String(draft.body)), session?.actor)
      )
  }

  private noteContent(draft: Draft, answer: Answer): void {
    const { index, operation } = draft
    const value = jsonOf(answer)
    const body = String(draft.body)
    if (operation?.id === "reports.submit" && typeof value === "object" && value !== null && "id" in value)
      this.reports.set(String(value.id), isChanged(draft) ? undefined : reportDigest(fieldsOf(body)))
    if (operation?.id === "webhooks.receive")
      for (const id of headerOf(draft, "x-silicon-iam-event-id"))
        this.deliveries.set(id.trim(), deliveredDigest(fieldsOf(body)))
    if (operation?.id === "telemetry.accept" && draft.malformed === undefined) {
      const before = this.events.get(index) ?? { byId: new Map(), others: [] }
      if (isRecorded(draft)) addEvents(draft, before)
      this.events.set(index, before)
    }
  }

  /** What is kept of refused requests, lost or changed of accepted ones, or there twice: a kind and a text each. */
  compare(stored: Stored): ReadonlyArray<Problem> {
    const problems: Array<Problem> = []
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
      for (const [id, digest] of own) {
        if (!kept.has(id)) problems.push([`lost ${kind}`, `the ${kind} ${id} was accepted and is not stored`])
        else if (digest !== undefined && kept.get(id) !== digest)
          problems.push([`changed ${kind}`, `the ${kind} ${id} is not stored as it was sent`])
      }
      if (kept.size > own.size + this.unanswered)
        problems.push([`${kind}s`, `${kept.size} ${kind}s are stored, and ${own.size} were accepted`])
    }
    for (const [index, { byId, others }] of this.events) {
      const expected = [...byId.values(), ...others]
      const found = stored.records.get(index) ?? []
      // An event without a UUID is another one each time.
      const most = expected.length + (this.again.has(index) ? others.length : 0)
      if (found.length < expected.length || found.length > most)
        problems.push([
          "telemetry",
          `request ${index} brought ${expected.length} telemetry events, and ${found.length} are stored`
        ])
      else if (
        !expected.includes(undefined) &&
        (!expected.every((digest) => digest !== undefined && found.includes(digest)) ||
          !found.every((digest) => expected.includes(digest)))
      )
        problems.push(["changed telemetry", `an event of request ${index} is not stored as it was sent`])
    }
    return problems
  }

  /** What refused requests did at IAM and Ting, and what accepted ones did not do there, or not once. */
  compareUpstreams(
    { registered, revoked, spent, tings }: AtUpstreams,
    ownSlts: ReadonlySet<string>,
    people: ReadonlyArray<string>
  ): ReadonlyArray<Problem> {
    const problems: Array<Problem> = []
    const requestOf = (act: string) => {
      const index = this.refusedAt.get(act)
      return index === undefined ? "no request asked for it" : `request ${index} was refused`
    }
    for (const [verb, done] of [
      ["spent", spent],
      ["revoked", revoked]
    ] as const) {
      for (const token of done)
        if (!this.tokens.has(token) && !ownSlts.has(token) && !this.perhaps.has(token))
          problems.push([
            `IAM ${verb}`,
            `${requestOf(token)}, and IAM ${verb} its ${token.slice(0, 4)} token`
          ])
      for (const token of this.due[verb])
        if (!done.has(token))
          problems.push([
            `IAM not ${verb}`,
            `IAM has not ${verb} an ${token.slice(0, 4)} token that was accepted`
          ])
    }
    for (const [slot, digests] of tings) {
      const known = this.tings.has(slot)
      if (!known && !this.perhaps.has(slot))
        problems.push(["ting", `${requestOf(slot)}, and Ting has its ting ${slot.slice(0, 80)}`])
      const expected = this.tings.get(slot)
      if (digests.length > 1)
        problems.push(["tings", `Ting has ${digests.length} tings ${slot.slice(0, 80)}`])
      else if (expected !== undefined && digests[0] !== expected)
        problems.push(["changed ting", `Ting has other content of ${slot.slice(0, 80)}`])
    }
    for (const slot of this.tings.keys())
      if (!tings.has(slot)) problems.push(["lost ting", `Ting has no ting ${slot.slice(0, 80)}`])
    for (const recipient of registered)
      if (!people.includes(recipient.replace(/^\S+ /, "")))
        problems.push(["registered", `Ting has the recipient ${recipient}, who sent no request`])
    return problems
  }
}
