/**
 * Every bound of a body, one below it, at it and one above it, in characters of different sizes. Each run begins with all of them,
 * because a random choice reaches each too rarely.
 */
import { makeCanary } from "./Canary.ts"
import { type Operation, operations } from "./Contract.ts"
import type { Draft } from "./Draft.ts"
import { isMembers, type Json, type JsonMembers, object } from "./JsonText.ts"
import type { Mutation } from "./Mutation.ts"
import { units } from "./Text.ts"

type Measure = (text: string) => number
export const codePoints: Measure = (text) => [...text].length
export const utf16: Measure = (text) => text.length
export const utf8: Measure = (text) => Buffer.byteLength(text)

/** A text that begins with `start` where it fits, made of one character, of an exact length under a measure. */
export const textOfLength = (length: number, start: string, unit: string, measure: Measure): string => {
  const head = measure(start) <= length ? start : ""
  const room = Math.max(0, length - measure(head))
  const count = Math.floor(room / measure(unit))
  return head + unit.repeat(count) + "x".repeat(room - count * measure(unit))
}

/** A place with a bound: the member of the body, its bound, and the value of a length. */
interface Bound {
  readonly operation: string
  readonly name: string
  readonly member: string
  readonly at: number
  readonly value: (length: number, draft: Draft, unit: string) => Json
}

const canary = ({ index }: Draft): string => makeCanary("body", index)
const items = (length: number, item: (position: number) => Json): Json =>
  Array.from({ length }, (_, position) => item(position))
const attachment = (name: string, content: string): Json => [object({ name, content })]

const text =
  (measure: Measure, start: (draft: Draft) => string) =>
  (length: number, draft: Draft, unit: string): Json =>
    textOfLength(length, start(draft), unit, measure)

const bounds: ReadonlyArray<Bound> = [
  ...[10, 20_000].map((at) => ({
    operation: "reports.submit",
    name: "message",
    member: "message",
    at,
    value: text(codePoints, canary)
  })),
  {
    operation: "reports.submit",
    name: "attachments",
    member: "attachments",
    at: 5,
    value: (length, draft) => items(length, (at) => object({ name: `${at}.log`, content: canary(draft) }))
  },
  ...[1, 120].map((at) => ({
    operation: "reports.submit",
    name: "attachment name",
    member: "attachments",
    at,
    value: (length: number, draft: Draft, unit: string) =>
      attachment(textOfLength(length, "", unit, codePoints), canary(draft))
  })),
  {
    operation: "reports.submit",
    name: "attachment content",
    member: "attachments",
    at: 100_000,
    value: (length, draft, unit) => attachment("a.log", textOfLength(length, canary(draft), unit, codePoints))
  },
  {
    operation: "reports.submit",
    name: "context",
    member: "context",
    at: 32_768,
    value: (length, _, unit) => object({ text: textOfLength(length - '{"text":""}'.length, "", unit, utf8) })
  },
  {
    operation: "reports.submit",
    name: "pr",
    member: "pr",
    at: 500,
    value: (length) => {
      const [start, end] = ["https://github.com/harbor/", "/pull/1"]
      return `${start}${"m".repeat(length - start.length - end.length)}${end}`
    }
  },
  ...[1, 255].map((at) => ({
    operation: "tings.send",
    name: "type",
    member: "type",
    at,
    value: text(codePoints, () => "")
  })),
  {
    operation: "tings.send",
    name: "key",
    member: "key",
    at: 200,
    value: text(utf8, (draft) => `${draft.session?.actor}/${canary(draft)}`)
  },
  ...[1, 40].map((at) => ({
    operation: "telemetry.accept",
    name: "events",
    member: "events",
    at,
    value: (length: number, draft: Draft) => items(length, () => object({ canary: canary(draft) }))
  })),
  ...[1, 8_192].map((at) => ({
    operation: "auth.login",
    name: "slt",
    member: "slt",
    at,
    value: text(codePoints, () => "")
  })),
  {
    operation: "auth.refresh",
    name: "refresh_token",
    member: "refresh_token",
    at: 8_192,
    value: text(codePoints, () => "ort_")
  },
  {
    operation: "auth.logout",
    name: "token",
    member: "token",
    at: 4_096,
    value: text(codePoints, () => "ort_")
  }
]

const withMember = (value: JsonMembers, name: string, member: Json): JsonMembers => ({
  members: [...value.members.filter(([each]) => each !== name), [name, member]]
})

const toMutation = ({ at, member, name, value }: Bound, length: number, unit: string): Mutation => ({
  name: `${name} of ${length} where the bound is ${at}`,
  stage: "value",
  apply: (draft) => {
    if (draft.value === undefined || !isMembers(draft.value)) return undefined
    draft.value = withMember(draft.value, member, value(length, draft, unit))
    return JSON.stringify(unit)
  }
})

/** A request of a call with one mutation. */
export interface Planned {
  readonly operation: Operation
  readonly mutation: Mutation
}

const sizes = (operation: Operation): ReadonlyArray<Mutation> =>
  operation.body === undefined
    ? []
    : [-1, 0, 1].flatMap((more) =>
        [false, true].map(
          (chunked): Mutation => ({
            name: `size of the body ${more} from its bound`,
            stage: "text",
            apply: (draft) => {
              if (draft.body === undefined || operation.body === undefined) return undefined
              const room = operation.body.maxBytes + more - draft.body.length
              draft.body = Buffer.concat([draft.body, Buffer.alloc(Math.max(0, room), " ")])
              if (chunked) draft.framing = { kind: "chunked", extension: "", trailer: "" }
              draft.last = true
              return chunked ? "in chunks" : ""
            }
          })
        )
      )

/** All bounds, in the order of a run. */
export const everyBound: ReadonlyArray<Planned> = operations.flatMap((operation) => [
  ...bounds
    .filter((bound) => bound.operation === operation.id)
    .flatMap((bound) =>
      [bound.at - 1, bound.at, bound.at + 1].flatMap((length) =>
        units.slice(0, 4).map((unit) => ({ operation, mutation: toMutation(bound, length, unit) }))
      )
    ),
  ...sizes(operation).map((mutation) => ({ operation, mutation }))
])
