/** What fast-check generates and shrinks: requests as plain data, without live credentials. Bodies come from the schemas of the document. */
import { FastCheck } from "effect"
import {
  accepted,
  type BodyCase,
  bodyCases,
  bodyInputs,
  frameInputs,
  headInputs,
  type Input,
  lineInputs
} from "../../world/Inputs.ts"
import { documents, type JsonSchema, type Operation, operations, resolve } from "../../world/Contract.ts"

/** A placeholder for a value that is made when the request is sent: the request's own word, its person, its tokens. */
export const marks = {
  word: "@word@",
  /** Another one at each place. */
  uuid: "@uuid@",
  actor: "@actor@",
  slt: "@slt@",
  refresh: "@refresh@",
  access: "@access@"
} as const

export interface Recipe {
  readonly operation: Operation | undefined
  readonly target: string
  readonly plane: "production" | "testing"
  /** With a bearer, where it is optional. */
  readonly signed: boolean
  readonly headers: ReadonlyArray<readonly [string, string]>
  readonly value: unknown
  readonly bodyCase: BodyCase | undefined
  readonly inputs: ReadonlyArray<Input>
  readonly place: number
  /** Sent in so many pieces. */
  readonly pieces: number
  /** The same bytes once more. */
  readonly twice: boolean
}

const { constantFrom: pick } = FastCheck
/** Well-formed text of all planes. */
const textOf = (maxLength: number) => FastCheck.string({ unit: "grapheme", maxLength })

const anyJson: FastCheck.Arbitrary<unknown> = FastCheck.letrec((tie) => ({
  node: FastCheck.oneof(
    { maxDepth: 2 },
    pick<unknown>(null, true, false, 1e308, Number.MAX_SAFE_INTEGER, 5e-324, 0.125),
    textOf(20),
    FastCheck.array(tie("node"), { maxLength: 2 }),
    FastCheck.tuple(textOf(3), tie("node")).map(([name, value]) => ({ [name]: value, constructor: 1 }))
  )
})).node

/** Values of a schema; `given` has those of single fields, by their path. */
const fromSchema = (
  schema: JsonSchema,
  path: string,
  given: Readonly<Record<string, FastCheck.Arbitrary<unknown>>>
): FastCheck.Arbitrary<unknown> => {
  const known = given[path]
  if (known !== undefined) return known
  const own = resolve(schema)
  if (own.anyOf !== undefined)
    return FastCheck.oneof(...own.anyOf.map((each) => fromSchema(each, path, given)))
  switch (own.type) {
    case "object": {
      const members = Object.entries(own.properties ?? {}).map(
        ([name, member]) => [name, fromSchema(member, path === "" ? name : `${path}.${name}`, given)] as const
      )
      if (typeof own.additionalProperties !== "object")
        return FastCheck.record(Object.fromEntries(members), { requiredKeys: [...(own.required ?? [])] })
      const free = textOf(8).filter((name) => name !== "__proto__")
      return FastCheck.dictionary(free, anyJson, { maxKeys: 2 }).map((more) => ({
        ...more,
        canary: marks.word
      }))
    }
    case "array":
      return FastCheck.array(fromSchema(own.items ?? {}, path, given), {
        minLength: own.minItems ?? 0,
        maxLength: 3
      })
    case "string":
      return textOf(40).map((text) => marks.word + text)
    case "null":
      return FastCheck.constant(null)
    default:
      return anyJson
  }
}

const callOf = (id: string) => operations.find((operation) => operation.id === id)

const tables = ["musicclidaemon", "musicfrontendanalytics", "musicfrontendevents"] as const
/** The origin of the pages that may send telemetry, though not to the daemon's table. */
const pages = ["Origin", "http://localhost:5173"] as const

/** An event with an id, without one, or with a time. */
const event = FastCheck.record(
  {
    id: FastCheck.oneof(FastCheck.constant(marks.uuid), textOf(8)),
    type: FastCheck.constant("playback.track.started"),
    metadata: FastCheck.record({
      occurred_at: FastCheck.integer({ min: 1_700_000_000_000, max: 1_900_000_000_000 })
    }),
    data: anyJson,
    canary: FastCheck.constant(marks.word)
  },
  { requiredKeys: ["canary"] }
)

/** What the prose of docs/api.md says about single fields. */
const givenFields: Readonly<Record<string, Readonly<Record<string, FastCheck.Arbitrary<unknown>>>>> = {
  "auth.login": { slt: FastCheck.constant(marks.slt) },
  "auth.refresh": { refresh_token: FastCheck.constant(marks.refresh) },
  "auth.logout": { token: pick(marks.refresh, marks.access, `${marks.word} is no token`) },
  "tings.send": {
    type: pick("music.trigger.fired", "music.trigger.expired"),
    key: FastCheck.constant(`${marks.actor}/${marks.word}`)
  },
  "reports.submit": {
    message: textOf(40).map((text) => `${marks.word}${text} stops.`),
    pr: pick(null, "https://github.com/harbor/music/pull/12")
  },
  "telemetry.accept": {
    table: pick(...tables),
    events: FastCheck.array(event, { minLength: 1, maxLength: 3 })
  }
}

const optionalHeaders = FastCheck.subarray<readonly [string, string]>(
  [
    ["X-Music-Source", "daemon"],
    ["X-Music-Telemetry", "on"],
    ["X-Music-Telemetry", "off"],
    ["traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
    ["Accept-Encoding", "gzip, br"],
    ["X-Music-Client-Version", "0.0.9"],
    pages
  ],
  { maxLength: 2 }
)

const one = FastCheck.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

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

/** A request as the body of a call that reads none. The next answer on the connection is that to the next request. */
const unreadBody: Input = {
  name: "a request as a body that is not read",
  parts: ["text", "framing"],
  outcome: accepted,
  change: (message, { call }) =>
    call === undefined || call.body !== undefined
      ? undefined
      : { ...message, body: Buffer.from("GET /api/v1/version HTTP/1.1\r\nHost: a\r\n\r\n") }
}

/** None for a quarter of the requests, else one to three. */
const inputs = FastCheck.oneof(
  { weight: 2, arbitrary: FastCheck.constant([]) },
  {
    weight: 5,
    arbitrary: FastCheck.array(
      FastCheck.oneof(
        { weight: 4, arbitrary: pick(...headInputs) },
        { weight: 2, arbitrary: pick(...bodyInputs) },
        { weight: 1, arbitrary: pick(...lineInputs) },
        { weight: 1, arbitrary: pick(...frameInputs) },
        { weight: 1, arbitrary: pick(unreadBody) }
      ),
      { maxLength: 3 }
    )
  }
)

const none = FastCheck.constant(undefined)
const rarely = (times: number) => FastCheck.integer({ min: 1, max: times }).map((number) => number === times)

/** Requests of one call, or of a path that has none. */
export const recipeOf = (operation: Operation | undefined, target: string): FastCheck.Arbitrary<Recipe> => {
  const schema = operation?.body?.schema
  const cases = bodyCases.filter(({ call }) => call === operation?.id)
  return FastCheck.record({
    operation: FastCheck.constant(operation),
    target: FastCheck.constant(target),
    plane: pick("production", "production", "production", "testing"),
    signed: rarely(3),
    headers: optionalHeaders,
    value:
      schema === undefined || operation === undefined
        ? FastCheck.constant(undefined)
        : fromSchema(schema, "", givenFields[operation.id] ?? {}),
    bodyCase: FastCheck.oneof(
      { weight: 6, arbitrary: none },
      { weight: 1, arbitrary: pick(undefined, ...cases) }
    ),
    inputs,
    place: one,
    pieces: pick(1, 1, 1, 1, 2, 5),
    twice: rarely(25)
  })
}

export const recipe: FastCheck.Arbitrary<Recipe> = FastCheck.oneof(
  ...operations.map((operation) => ({
    weight: weights[operation.id] ?? 4,
    arbitrary: recipeOf(operation, operation.path)
  })),
  {
    weight: 2,
    arbitrary: recipeOf(callOf("webhooks.receive"), "/webhook/")
  },
  ...[...documents, "/nothing/here"].map((path) => ({ weight: 1, arbitrary: recipeOf(undefined, path) }))
)
