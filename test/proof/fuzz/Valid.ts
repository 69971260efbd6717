/** Valid requests, generated from the schemas of the document; where a schema says "any string", from the prose of docs/api.md. */
import { signWebhook } from "../../../sandbox/upstreams/Iam.ts"
import { seeded, type Random } from "../../durability/Random.ts"
import { makeCanary } from "./Canary.ts"
import { documents, type JsonSchema, type Operation, operations, resolve } from "./Contract.ts"
import type { Draft, LiveSession } from "./Draft.ts"
import { isMembers, type Json, type JsonMembers, object, RawText } from "./JsonText.ts"
import { oddNumbers, pick, textOf } from "./Text.ts"
import type { PlaneName, World } from "./World.ts"

/** Live sessions. One that a refresh or a logout spends is taken out. */
export interface Sessions {
  readonly bearer: (plane: PlaneName, random: Random) => LiveSession
  readonly take: (plane: PlaneName, random: Random) => Promise<LiveSession>
}

/** How often each call is made, relative to the others. */
const weights: Readonly<Record<string, number>> = {
  "auth.login": 8,
  "auth.refresh": 8,
  "auth.logout": 5,
  "auth.me": 8,
  "tings.subscribe": 5,
  "tings.send": 14,
  "reports.submit": 20,
  "telemetry.accept": 12,
  "webhooks.receive": 12
}
const defaultWeight = 4
const wheel: ReadonlyArray<Operation | string> = [
  ...operations.flatMap((operation) =>
    Array<Operation>(weights[operation.id] ?? defaultWeight).fill(operation)
  ),
  ...documents.keys(),
  "/nothing/here"
]

const uuid = (random: Random): string => {
  const hex = Array.from({ length: 32 }, () => random.below(16).toString(16)).join("")
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`
}

/** Any JSON, of few members. */
const anyJson = (random: Random, depth = 0): Json => {
  switch (random.below(depth > 2 ? 5 : 7)) {
    case 0:
      return null
    case 1:
      return random.below(2) === 0
    case 2:
      return random.below(1_000_000) / 8
    case 3:
      // Each that a double holds.
      return new RawText(pick(random, ["1e308", "-0", "9007199254740993", "1E+2", "0.1e-400", "5"]))
    case 4:
      return textOf(random, random.below(20))
    case 5:
      return Array.from({ length: random.below(3) }, () => anyJson(random, depth + 1))
    default:
      return object({ [textOf(random, 3)]: anyJson(random, depth + 1), constructor: 1 })
  }
}

interface Place {
  readonly random: Random
  readonly canary: string
  /** By the path of the field, such as `attachments.name`. */
  readonly given: Readonly<Record<string, Json>>
}

const generate = (given: JsonSchema, path: string, place: Place): Json => {
  const { random } = place
  const own = place.given[path]
  if (own !== undefined) return own
  const schema = resolve(given)
  if (schema.anyOf !== undefined) {
    const [first = {}, ...others] = schema.anyOf
    return generate(pick(random, [first, ...others]), path, place)
  }
  switch (schema.type) {
    case "object": {
      const members: Array<readonly [string, Json]> = []
      for (const [name, member] of Object.entries(schema.properties ?? {}))
        if (schema.required?.includes(name) === true || random.below(2) === 0)
          members.push([name, generate(member, path === "" ? name : `${path}.${name}`, place)])
      if (typeof schema.additionalProperties === "object") {
        members.push(["canary", place.canary])
        for (let more = random.below(3); more > 0; more -= 1)
          members.push([textOf(random, 1 + random.below(8)), anyJson(random)])
      }
      return { members }
    }
    case "array": {
      const low = schema.minItems ?? 0
      const length = low + random.below(Math.min(3, (schema.maxItems ?? 3) - low) + 1)
      return Array.from({ length }, () => generate(schema.items ?? {}, path, place))
    }
    case "string": {
      const room = Math.min(40, (schema.maxLength ?? 1_000) - place.canary.length)
      return place.canary + textOf(random, Math.max(0, random.below(Math.max(1, room))))
    }
    case "null":
      return null
    case "number":
      return new RawText(pick(random, oddNumbers))
    default:
      return anyJson(random)
  }
}

export const fromValue = (value: unknown): Json => {
  if (Array.isArray(value)) return value.map(fromValue)
  if (typeof value === "object" && value !== null)
    return { members: Object.entries(value).map(([name, member]) => [name, fromValue(member)] as const) }
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? value : null
}

const telemetryTables = ["musicclidaemon", "musicfrontendanalytics", "musicfrontendevents"] as const

/** An event without a time or with a plausible one, and often with an id. */
const eventFields = (random: Random): ReadonlyArray<readonly [string, Json]> => [
  ...(random.below(2) === 0 ? [["id", uuid(random)] as const] : []),
  ["type", "playback.track.started"],
  ["metadata", object(random.below(2) === 0 ? {} : { occurred_at: Date.now() - random.below(100_000) })]
]

const withEvents = (value: Json, random: Random): Json =>
  isMembers(value)
    ? {
        members: value.members.map(([name, member]) =>
          name === "events" && Array.isArray(member)
            ? [name, member.map((event: Json) => withMembers(event, eventFields(random)))]
            : [name, member]
        )
      }
    : value

const withMembers = (value: Json, more: ReadonlyArray<readonly [string, Json]>): Json =>
  isMembers(value) ? ({ members: [...value.members, ...more] } satisfies JsonMembers) : value

/** What the prose of docs/api.md says about single fields. */
const givenFields = (draft: Draft, canary: string): Readonly<Record<string, Json>> => {
  const { operation, random, session, slt } = draft
  switch (operation?.id) {
    case "auth.login":
      return { slt: slt ?? "" }
    case "auth.refresh":
      return { refresh_token: session?.refresh ?? "" }
    case "auth.logout":
      return {
        token: pick(random, [session?.refresh ?? "", session?.access ?? "", `${canary}${textOf(random, 9)}`])
      }
    case "tings.send":
      return {
        type: pick(random, ["music.trigger.fired", "music.trigger.expired"]),
        key: `${session?.actor ?? ""}/${canary}`
      }
    case "reports.submit":
      return { pr: random.below(3) === 0 ? null : "https://github.com/harbor/music/pull/12" }
    case "telemetry.accept":
      // A browser may not write to the daemon's table.
      return {
        table: draft.headers.some(([name]) => name === "Origin")
          ? telemetryTables[2]
          : pick(random, telemetryTables)
      }
    default:
      return {}
  }
}

const versions = ["0.0.9", "0.1.0-alpha.1", "0.1.0", "0.1.0+build.5", "1.20.300", "10.0.0-rc.1"] as const

const optionalHeaders = (draft: Draft, random: Random): void => {
  const maybe = (name: string, values: readonly [string, ...ReadonlyArray<string>]) => {
    if (random.below(5) === 0) draft.headers.push([name, pick(random, values)])
  }
  maybe("X-Music-Source", ["cli", "daemon", "web"])
  maybe("X-Music-Client-Version", versions)
  maybe("X-Music-Telemetry", ["on", "off"])
  maybe("traceparent", ["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"])
  maybe("User-Agent", ["music-cli/1.0"])
  maybe("Accept", ["*/*", "text/html", "application/json"])
  maybe("Accept-Encoding", ["gzip, br", "identity"])
  maybe("Origin", ["http://localhost:5173"])
}

/** The address of a client, another one for each request. */
const addressOf = (index: number): string =>
  index % 5 === 0
    ? `2001:db8:${(index >>> 16).toString(16)}:${(index & 0xffff).toString(16)}::1`
    : `10.${(index >>> 16) & 255}.${(index >>> 8) & 255}.${index & 255}`

const signedDelivery = (draft: Draft, canary: string, world: World): void => {
  const { production, environment } = world.upstreams.seeded
  const { random } = draft
  const plane = draft.plane === "testing" ? environment.environmentId : production.plane
  const eventId = uuid(random)
  const { body } = world.upstreams.iam.controls.buildWebhook(plane, {
    eventType: pick(random, ["carbon.updated.v1", "organization.updated.v1", "fuzz.noted.v1"]),
    appId: "music",
    eventId,
    data: { canary, more: textOf(random, random.below(30)) }
  })
  draft.value = fromValue(JSON.parse(body.toString()))
  draft.sign = (bytes) => {
    const timestamp = String(Math.floor(Date.now() / 1_000))
    return [
      ["X-Silicon-IAM-Event-ID", eventId],
      ["X-Silicon-IAM-Timestamp", timestamp],
      ["X-Silicon-IAM-Key-Version", String(production.webhookKeyVersion)],
      ["X-Silicon-IAM-Signature", signWebhook(production.webhookSecret, timestamp, bytes)]
    ]
  }
}

/** Random numbers of one purpose of one request, so that leaving a mutation out changes no other. */
export const randomFor = (seed: number, index: number, purpose: number): Random =>
  seeded(
    (Math.imul(seed, 0x9e37_79b1) ^ Math.imul(index + 1, 0x85eb_ca6b) ^ Math.imul(purpose, 0xc2b2_ae35)) >>> 0
  )

/** The valid request of an index; `only`: of this call. */
export const makeValid = async (
  seed: number,
  index: number,
  world: World,
  sessions: Sessions,
  only?: Operation
): Promise<Draft> => {
  const random = randomFor(seed, index, 1)
  const drawn = wheel[random.below(wheel.length)] ?? "/docs"
  const chosen = only ?? drawn
  const operation = typeof chosen === "string" ? undefined : chosen
  const testing = random.below(operation?.id === "webhooks.receive" ? 2 : 4) === 0
  const plane = testing ? "testing" : "production"
  const canary = makeCanary("body", index)
  const draft: Draft = {
    index,
    random,
    operation,
    plane,
    method: operation?.method ?? "GET",
    target: typeof chosen === "string" ? chosen : chosen.path,
    version: "1.1",
    headers: [
      ["Host", `127.0.0.1:${world.port}`],
      ["X-Request-Id", `fuzz-${seed}-${index}`]
    ],
    value: undefined,
    body: undefined,
    framing: { kind: "length" },
    verbatim: undefined,
    lines: [],
    address: addressOf(index),
    session: undefined,
    slt: undefined,
    sign: undefined,
    open: false,
    malformed: undefined,
    halfClose: false,
    last: false,
    mutations: []
  }
  if (draft.target === "/") draft.headers.push(["Accept", "text/html"])
  else optionalHeaders(draft, random)
  if (operation === undefined) return draft
  if (operation.path === "/webhook" && random.below(2) === 0) draft.target = "/webhook/"
  if (operation.parameters.has("idempotency-key"))
    draft.headers.push([
      "Idempotency-Key",
      `fuzz-${seed}-${index}-${random.below(1_000_000)}`.padEnd(16, "k")
    ])
  if (operation.parameters.has("x-testing-environment-key") && plane === "testing")
    draft.headers.push(["X-Testing-Environment-Key", world.testingSecret])
  if (operation.id === "auth.login")
    draft.slt = world.mintSlt(plane, world.people[random.below(world.people.length)] ?? "")
  if (operation.id === "auth.refresh" || operation.id === "auth.logout")
    draft.session = await sessions.take(plane, random)
  if (operation.bearer === "required" || (operation.bearer === "optional" && random.below(3) === 0)) {
    draft.session = sessions.bearer(plane, random)
    draft.headers.push(
      ["Authorization", `Bearer ${draft.session.access}`],
      ["X-Org-ID", draft.session.organisation]
    )
  }
  if (operation.body === undefined) return draft
  draft.headers.push(["Content-Type", "application/json"])
  if (operation.parameters.has("x-silicon-iam-signature")) signedDelivery(draft, canary, world)
  else {
    const value = generate(operation.body.schema, "", {
      random,
      canary,
      given: givenFields(draft, canary)
    })
    draft.value = operation.id === "telemetry.accept" ? withEvents(value, random) : value
  }
  return draft
}
