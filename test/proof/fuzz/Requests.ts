/** A recipe becomes a request with live credentials, and the answer that docs/api.md promises for it. */
import { signWebhook } from "../../../sandbox/upstreams/Iam.ts"
import { organisation } from "../../world/Calls.ts"
import { isRecord } from "../../world/Driver.ts"
import {
  combine,
  type Facts,
  type Input,
  type Message,
  open,
  type Outcome,
  outcomeOf,
  refused,
  valuesOf,
  writeMessage
} from "../../world/Inputs.ts"
import { marks, type Recipe } from "./Recipes.ts"
import { type PlaneName, webOrigin, type World } from "./World.ts"

/** Where a request has a text: its body, its headers, its target. */
type Place = "body" | "header" | "path"

/** A text that occurs nowhere else and names its request and place, so that a copy is found. It fits into every place. */
const makeCanary = (place: Place, index: number): string =>
  `zqx7${place[0]}${index.toString(36).padStart(6, "0")}7xqz`

/** The beginning or the end of a canary. */
export const canaryPart = /zqx7|7xqz/i

/** Every canary of a text, each once: the first letter of its place, and its request. */
export const findCanaries = (text: string) => {
  const found = new Map<string, { readonly place: string; readonly index: number }>()
  for (const [whole, place = "", index = ""] of text.matchAll(/zqx7([bhp])([0-9a-z]{6})7xqz/gi))
    found.set(whole, { place: place.toLowerCase(), index: Number.parseInt(index.toLowerCase(), 36) })
  return [...found.values()]
}

export const valuesIn = ({ message }: Draft, name: string): ReadonlyArray<string> => valuesOf(message, name)

/** The plane that its header selects. */
export const planeOf = (draft: Draft): PlaneName =>
  valuesIn(draft, "x-testing-environment-key").length > 0 ? "testing" : "production"

const hex = (index: number, length: number): string => index.toString(16).padStart(length, "0")

/** The address of a client, another one for each request. */
const addressOf = (index: number): string =>
  index % 5 === 0
    ? `2001:db8:${(index >>> 16).toString(16)}:${(index & 0xffff).toString(16)}::1`
    : `10.${(index >>> 16) & 255}.${(index >>> 8) & 255}.${index & 255}`

const delivery = (recipe: Recipe, index: number, world: World, canary: string) => {
  const eventTypes = ["carbon.updated.v1", "organization.updated.v1", "fuzz.noted.v1"]
  const eventId = `${hex(index, 8)}-0000-4000-8000-${hex(Math.floor(recipe.place * 2 ** 40), 12)}`
  const { body } = world.upstreams.iam.controls.buildWebhook(world.planes[recipe.plane], {
    eventType: eventTypes[index % 3] ?? "",
    eventId,
    data: { canary, more: `${recipe.place}` }
  })
  return { eventId, text: body.toString() }
}

const signatureOf = (
  world: World,
  eventId: string,
  body: Buffer
): ReadonlyArray<readonly [string, string]> => {
  const { production } = world.upstreams.seeded
  const timestamp = String(Math.floor(Date.now() / 1_000))
  return [
    ["X-Silicon-IAM-Event-ID", eventId],
    ["X-Silicon-IAM-Timestamp", timestamp],
    ["X-Silicon-IAM-Key-Version", String(production.webhookKeyVersion)],
    ["X-Silicon-IAM-Signature", signWebhook(production.webhookSecret, timestamp, body)]
  ]
}

/** Bytes of a head between which the server refuses it or not: names and values alone, or with their separators. */
const headBound = 16_384
/** Bytes of a head beyond which its connection perhaps ends. */
const longHead = 15_000

/** The inputs that fit together: the first of each part. */
const compatible = (inputs: ReadonlyArray<Input>, taken: ReadonlyArray<string>): ReadonlyArray<Input> => {
  const parts = new Set(taken)
  return inputs.filter((input) => {
    const fits = input.parts.every((part) => !parts.has(part))
    if (fits) for (const part of input.parts) parts.add(part)
    return fits
  })
}

export const makeDraft = (recipe: Recipe, index: number, seed: number, world: World) => {
  const { operation, plane, value } = recipe
  const id = operation?.id ?? ""
  const isDelivery = id === "webhooks.receive"
  const spends = id === "auth.refresh" || id === "auth.logout"
  const isSigned = operation?.bearer === "required" || (operation?.bearer === "optional" && recipe.signed)
  const session = spends
    ? world.makeSession(plane, index)
    : isSigned
      ? world.sessionOf(plane, index)
      : undefined
  const { environment, production } = world.upstreams.seeded
  const facts: Facts = {
    call: operation,
    plane,
    actor: session?.actor ?? "si:nobody",
    access: session?.access ?? "oat_",
    testingSecret: world.testingSecret,
    otherSecrets: [environment.tingSecret, production.musicSecret, environment.rootKey],
    webOrigin,
    word: (place) => makeCanary(place, index),
    now: Math.floor(Date.now() / 1_000),
    place: recipe.place
  }
  let ids = 0
  const nextId = () => `${hex(index, 8)}-0000-4000-8000-${hex(ids++, 12)}`
  const fill = (text: string): string =>
    text
      .replaceAll(marks.uuid, nextId)
      .replaceAll(marks.word, makeCanary("body", index))
      .replaceAll(marks.actor, facts.actor)
      .replaceAll(marks.refresh, session?.refresh ?? "")
      // IAM's own events are stored as they are.
      .replaceAll(marks.access, session?.access ?? (isDelivery ? "" : world.testingSecret))
      .replaceAll(marks.slt, slt)
  const slt = id === "auth.login" ? world.mintSlt(plane, index) : ""

  const outcomes: Array<Outcome> = []
  const changes: Array<string> = []
  if (operation === undefined)
    outcomes.push(recipe.target.startsWith("/nothing") ? refused("path", 404, "not_found") : open("limits"))
  // The body as text.
  const signed = isDelivery ? delivery(recipe, index, world, makeCanary("body", index)) : undefined
  let text = value === undefined ? undefined : (signed?.text ?? fill(JSON.stringify(value)))
  const { bodyCase } = recipe
  if (bodyCase !== undefined && isRecord(value)) {
    text = fill(JSON.stringify({ ...value, [bodyCase.member]: bodyCase.value(facts) }))
    // In a testing plane an SLT may be a test public id.
    outcomes.push(id === "auth.login" && plane === "testing" ? open("schema") : bodyCase.outcome)
    changes.push(bodyCase.name)
  }

  let message: Message = {
    method: operation?.method ?? "GET",
    target: recipe.target,
    version: "1.1",
    headers: [
      ["Host", `127.0.0.1:${world.port}`],
      ["X-Request-Id", `fuzz-${seed}-${index}`],
      ...recipe.headers.filter(([name]) => name !== "Origin" || !String(text).includes("musicclidaemon")),
      ["X-Forwarded-For", addressOf(index)],
      ...(operation?.parameters.has("idempotency-key") === true
        ? [["Idempotency-Key", `fuzz-${seed}-${index}`.padEnd(24, "k")] as const]
        : []),
      ...(plane === "testing" && operation?.parameters.has("x-testing-environment-key") === true
        ? [["X-Testing-Environment-Key", world.testingSecret] as const]
        : []),
      ...(isSigned && session !== undefined
        ? [["Authorization", `Bearer ${session.access}`] as const, ["X-Org-ID", organisation] as const]
        : []),
      ...(text === undefined ? [] : [["Content-Type", "application/json"] as const])
    ],
    body: text === undefined ? undefined : Buffer.from(text),
    framing: { kind: "length" },
    lines: [],
    verbatim: undefined,
    last: false,
    halfClose: false
  }
  const apply = (input: Input): void => {
    const changed = input.change(message, facts)
    // A path without its first slash is none.
    if (changed === undefined || changed.target.startsWith("%")) return
    const outcome = outcomeOf(input, facts, message)
    message = changed
    const isJudgedBySignature =
      isDelivery &&
      input.parts.includes("text") &&
      (outcome.kind === "accepted" || (outcome.kind === "refused" && /JSON|schema/.test(outcome.step)))
    outcomes.push(isJudgedBySignature ? open("JSON") : outcome)
    changes.push(input.name)
  }
  const inputs = compatible(recipe.inputs, bodyCase === undefined ? [] : ["text", "value"])
  const isOfBody = ({ parts }: Input) => parts.includes("text")
  const isFrame = ({ parts }: Input) => parts.includes("framing")
  for (const input of inputs) if (isOfBody(input)) apply(input)
  if (signed !== undefined && message.body !== undefined)
    message = {
      ...message,
      headers: [...message.headers, ...signatureOf(world, signed.eventId, message.body)]
    }
  for (const input of inputs) if (!isOfBody(input) && !isFrame(input)) apply(input)
  for (const input of inputs) if (!isOfBody(input) && isFrame(input)) apply(input)

  const least = message.headers.reduce((sum, [name, own]) => sum + name.length + own.length, 0)
  const most = least + message.headers.length * 4 + message.target.length + 200
  if (least > headBound) outcomes.push(refused("transport", 431, "invalid_input"))
  else if (most > headBound) outcomes.push(open("transport"))
  const largest = operation?.body?.maxBytes ?? Number.POSITIVE_INFINITY
  const isLarge = (message.body?.length ?? 0) > largest
  if (isLarge)
    outcomes.push(
      refused(message.framing.kind === "chunked" ? "size" : "declared length", 413, "payload_too_large")
    )
  const outcome = combine(outcomes)
  // The transport judges it: no request reaches the service, or perhaps another one.
  const isSyntax = outcome.kind !== "accepted" && outcome.step === "transport"
  const end = message.verbatim?.indexOf("\r\n\r\n", 4) ?? -1
  return {
    index,
    recipe,
    operation,
    message: {
      ...message,
      // The transport answers bad syntax without knowing the method, so its answer to HEAD has a body.
      method: isSyntax && message.method === "HEAD" ? "GET" : message.method,
      last: message.last || isSyntax || isLarge || most > longHead
    },
    /** As it was meant; of a request that is no HTTP, what was sent after the head. */
    body: end === -1 ? message.body : message.verbatim?.subarray(end + 4),
    outcome,
    isSyntax,
    changes: changes as ReadonlyArray<string>
  }
}
export type Draft = ReturnType<typeof makeDraft>

const shown = 1_200

/** What a failure is known by, with its bytes; only credentials of the simulated services are in them. */
export const storyOf = (draft: Draft): string =>
  [`request ${draft.index}: ${draft.operation?.id ?? draft.recipe.target}`, ...draft.changes].join(" + ")

export const printDraft = ({ message }: Draft): string => {
  const bytes = JSON.stringify(writeMessage(message).toString("latin1")).replaceAll("\x7f", "\\u007f")
  return bytes.length <= shown ? bytes : `${bytes.slice(0, shown - 300)} … ${bytes.slice(-300)}`
}
