/**
 * What the service said about each request, to be compared with what it kept and did: a refused request leaves nothing, an accepted one is
 * kept once, as it was sent. That what was acknowledged is there once, and no credential anywhere, is the oracle's.
 */
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { bodyOf, fieldsOf, isRecord } from "../../world/Driver.ts"
import { rowsOf } from "../../world/Oracle.ts"
import type { RawAnswer } from "../../world/RawHttp.ts"
import { toAnswer } from "./Laws.ts"
import { type Draft, findCanaries, planeOf, storyOf, valuesIn } from "./Requests.ts"
import type { World } from "./World.ts"

type Fields = Readonly<Record<string, unknown>>

/** The order of names has no meaning. */
const sorted = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sorted)
  if (!isRecord(value)) return value
  const members = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1))
  return members.map(([name, member]) => [name, sorted(member)])
}

const digest = (...values: ReadonlyArray<unknown>): string =>
  createHash("sha256")
    .update(JSON.stringify(sorted(values)))
    .digest("base64")

/** Everything of a report that a person sent. */
const reportDigest = ({ attachments, context, message, pr }: Fields) =>
  digest(message, pr ?? null, attachments ?? [], context ?? null)

/** Of a delivery's body, in production's envelope or in that of a testing plane. */
const deliveryDigest = ({ data, event_type, test }: Fields) => {
  if (!isRecord(test)) return digest(event_type, data)
  return digest(isRecord(test.metadata) ? test.metadata.event_type : undefined, test.data)
}

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** An id that names the record is not part of its content. */
const recordDigest = ({ id, ...others }: Fields) =>
  digest(typeof id === "string" && !uuid.test(id) ? { id, ...others } : others)

/** A ting as it was asked for, or as Ting has it. */
const tingDigest = ({ data, metadata, type }: Fields, recipient: unknown) =>
  digest(type, data, metadata ?? {}, recipient)

/** The caller did not opt out, and the plane is production (docs/api.md, "POST /api/v1/telemetry"). */
const isRecorded = (draft: Draft): boolean => {
  const preference = valuesIn(draft, "x-music-telemetry").map((value) => value.trim())
  const refusals = ["dnt", "sec-gpc"].flatMap((name) => valuesIn(draft, name))
  return (
    planeOf(draft) === "production" &&
    refusals.length === 0 &&
    (preference.length === 0 || preference.join() === "on")
  )
}

/** What is kept in one place: digests by their ids there. */
type Contents<Digest> = Map<string, Map<string, Digest>>

const put = <Digest>(contents: Contents<Digest>, place: string, id: string, value: Digest): void => {
  const known = contents.get(place) ?? new Map<string, Digest>()
  contents.set(place, known.set(id, known.get(id) ?? value))
}

/** Reads everything, while nothing is in flight. */
const readKept = ({ database, planes, upstreams }: World) => {
  const kept: Contents<string> = new Map()
  const texts: Array<readonly [where: string, text: string]> = []
  /** The request whose text a report has. */
  const senders = new Map<string, number>()
  const keepRecord = (id: unknown, json: string) => {
    const [first] = findCanaries(json)
    if (first !== undefined) put(kept, `events ${first.index}`, String(id), recordDigest(fieldsOf(json)))
  }
  for (const { record, record_id } of upstreams.rows()) {
    texts.push(["a record", JSON.stringify(record)])
    keepRecord(record_id, JSON.stringify(record))
  }
  // A record that waits for its acknowledgement is perhaps delivered already, under the same id.
  for (const { json, record_id } of rowsOf(database, "SELECT record_id, json FROM spool"))
    keepRecord(record_id, String(json))
  for (const { content, id } of rowsOf(database, "SELECT id, content FROM reports")) {
    put(kept, `report ${id}`, "", reportDigest(fieldsOf(String(content))))
    for (const { index } of findCanaries(String(content))) senders.set(`report ${id}`, index)
  }
  for (const { data, event_id, event_type } of rowsOf(database, "SELECT * FROM webhook_inbox"))
    put(kept, `webhook ${event_id}`, "", digest(event_type, JSON.parse(String(data))))
  for (const [name, plane] of Object.entries(planes))
    for (const ting of upstreams.ting.controls.accepted(plane))
      put(kept, `ting ${name} ${ting.key}`, ting.id, tingDigest({ ...ting }, ting.for))
  for (const { form, path, status = 0 } of upstreams.calls) {
    const token = form.get("slt") ?? form.get("refresh_token") ?? form.get("token")
    const isDone = (path === "tokens" || path === "revoke") && status >= 200 && status < 300
    if (isDone) put(kept, `${path} ${token}`, "", "")
  }
  for (const { body, title } of upstreams.issues()) texts.push(["an issue", `${title}\n${body}`])
  // Every byte, also of free pages.
  for (const file of [database, `${database}-wal`])
    texts.push(["the bytes of the database", readFileSync(file, "latin1")])
  return { kept, senders, texts }
}

const tokenNames: Readonly<Record<string, readonly [path: string, name: string]>> = {
  "auth.login": ["tokens", "slt"],
  "auth.refresh": ["tokens", "refresh_token"],
  "auth.logout": ["revoke", "token"]
}

/** What a request asks an upstream for: a token that is spent or revoked, or a ting. */
const actOf = (draft: Draft): string | undefined => {
  const { body, operation } = draft
  const fields = fieldsOf(String(body))
  if (operation?.id === "tings.send") return `ting ${planeOf(draft)} ${fields.key}`
  const [path, name = ""] = tokenNames[operation?.id ?? ""] ?? []
  return path === undefined ? undefined : `${path} ${fields[name]}`
}

export class Ledger {
  readonly accepted = new Set<number>()
  readonly refused = new Set<number>()
  /** What must be there; without a digest in any form, because it was redacted or changed on the way. */
  private readonly due: Contents<string | undefined> = new Map()
  /** What may be there: of requests without an answer, and tokens that are none. */
  private readonly perhaps = new Set<string>()
  private readonly stories = new Map<number | string, string>()

  /** A request without an answer, which is perhaps sent again. */
  noteUnanswered(draft: Draft): void {
    this.perhaps.add(actOf(draft) ?? "")
    for (const kind of ["events", "report"]) this.perhaps.add(`${kind} ${draft.index}`)
  }

  note(draft: Draft, answer: RawAnswer): void {
    const { index } = draft
    this.stories.set(index, storyOf(draft))
    const act = actOf(draft)
    if (act !== undefined && !this.due.has(act)) this.stories.set(act, `${storyOf(draft)}: ${answer.status}`)
    if (answer.status >= 300) {
      this.refused.add(index)
      return
    }
    this.accepted.add(index)
    // What was changed on the way is perhaps something else.
    if (draft.isSyntax) this.noteUnanswered(draft)
    if (draft.message.method === "POST") this.noteContent(draft, answer, act)
  }

  private noteContent(draft: Draft, answer: RawAnswer, act = ""): void {
    const { body, index, operation, session } = draft
    const fields = fieldsOf(String(body))
    const keep = (place: string, id: string, value: string) => {
      put(this.due, place, id, draft.isChanged ? undefined : value)
      this.stories.set(place, storyOf(draft))
    }
    switch (operation?.id) {
      case "tings.send":
        keep(act, String(bodyOf(toAnswer(answer)).id), tingDigest(fields, session?.actor))
        break
      case "auth.login":
      case "auth.refresh":
        keep(act, "", "")
        break
      case "auth.logout":
        if (fields.token === session?.access || fields.token === session?.refresh) keep(act, "", "")
        else this.perhaps.add(act)
        break
      case "reports.submit":
        keep(`report ${bodyOf(toAnswer(answer)).id}`, "", reportDigest(fields))
        break
      case "webhooks.receive":
        for (const id of valuesIn(draft, "x-silicon-iam-event-id"))
          keep(`webhook ${id.trim()}`, "", deliveryDigest(fields))
        break
      case "telemetry.accept":
        this.stories.set(`events ${index}`, storyOf(draft))
        // The body was accepted, so it fits its schema.
        for (const event of isRecorded(draft) ? (fields.events as ReadonlyArray<Fields>) : [])
          if (findCanaries(JSON.stringify(event)).some((found) => found.index === index)) {
            const id =
              typeof event.id === "string" && uuid.test(event.id) ? event.id.toLowerCase() : undefined
            // An event without a UUID is another one each time.
            keep(`events ${index}`, id ?? `${this.due.get(`events ${index}`)?.size}`, recordDigest(event))
          }
        break
      default:
    }
  }

  /** What is kept of refused requests, and what is lost, changed or there without need of accepted ones. */
  *compare(world: World): Generator<string> {
    const { kept, senders, texts } = readKept(world)
    for (const [where, text] of texts)
      for (const { index, place } of findCanaries(text)) {
        const isRefused = this.refused.has(index) && !this.accepted.has(index)
        if (isRefused || place === "h" || place === "p")
          yield `${this.stories.get(index)}: ${isRefused ? "was refused, and " : ""}${where} has its text (${place})`
      }
    for (const [place, own] of this.due) {
      const found = [...(kept.get(place)?.values() ?? [])].sort()
      const expected = [...own.values()]
      const isAsSent = expected.includes(undefined) || expected.sort().join() === found.join()
      if (!this.perhaps.has(place) && (found.length !== own.size || !isAsSent))
        yield `${this.stories.get(place)}: of ${own.size} ${place.slice(0, 80)}, ${found.length} are kept${isAsSent ? "" : ", in another form"}`
    }
    for (const place of kept.keys()) {
      const sender = senders.get(place) ?? place
      const isUnknown = this.perhaps.has(place) || this.perhaps.has(`report ${sender}`)
      if (!this.due.has(place) && !isUnknown)
        yield `${this.stories.get(place) ?? this.stories.get(sender) ?? sender}: was not accepted, and ${place.slice(0, 80)} is kept`
    }
    for (const plane of Object.values(world.planes))
      for (const { for: recipient } of world.upstreams.ting.controls.grants(plane))
        if (!world.people.includes(recipient))
          yield `Ting has the recipient ${recipient}, who sent no request`
  }
}
