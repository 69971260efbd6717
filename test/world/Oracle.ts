/**
 * What must hold after every play, whatever happened. It sees each request and answer, and reads the rows, the log and the upstreams:
 * acknowledged is stored once and delivered at most once; a session is ended only by its owner; no credential is where it does not belong;
 * each answer fits the published contract; calls to IAM stay within their limit.
 */
import { existsSync, readFileSync } from "node:fs"
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js"
import ajvFormats from "ajv-formats"
import Database from "better-sqlite3"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { compileWith, type JsonSchema, operationOf, pathOf as pathIn } from "./Contract.ts"
import { type Answer, bodyOf, codeOf, fieldsOf, isRecord, isSuccess, refusalOf, type Sent } from "./Driver.ts"
import type { UpstreamCall, Upstreams } from "./Upstreams.ts"

export type Row = Readonly<Record<string, unknown>>

/** Reads rows of a SQLite file beside the servers that use it. */
export const rowsOf = (path: string, statement: string): ReadonlyArray<Row> => {
  const database = new Database(path)
  try {
    return database.prepare(statement).all()
  } finally {
    database.close()
  }
}

/** A field that the schema of a response does not name is a problem, too. */
const closed = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(closed)
  if (!isRecord(value)) return value
  const members = Object.fromEntries(Object.entries(value).map(([name, member]) => [name, closed(member)]))
  return isRecord(value.properties) && value.type === "object" && !("additionalProperties" in value)
    ? { ...members, additionalProperties: false }
    : members
}

const validators = new Map<JsonSchema, ValidateFunction>()
let compile: ((schema: JsonSchema) => ValidateFunction) | undefined

/** The validator of an answer, which is compiled when it is first needed. */
const validatorOf = (schema: JsonSchema): ValidateFunction => {
  if (compile === undefined) {
    const ajv = new Ajv2020({ strict: false, allErrors: false, validateSchema: false })
    ajvFormats.default(ajv)
    compile = compileWith(ajv, closed)
  }
  const validate = validators.get(schema) ?? compile(schema)
  validators.set(schema, validate)
  return validate
}

const methodOf = ({ body, method }: Sent) => method ?? (body === undefined ? "GET" : "POST")
/** Of a webhook's two spellings the documented one. */
const pathOf = ({ path }: Sent) => pathIn(path).replace(/^\/webhook\/$/, "/webhook")

/** What is wrong with an answer by the published contract; nothing where it has no such call. */
const contractProblems = (sent: Sent, answer: Answer): ReadonlyArray<string> => {
  const [method, path] = [methodOf(sent), pathOf(sent)]
  // The answer to HEAD has no body.
  const operation = method === "HEAD" ? undefined : operationOf(method, path)
  if (operation === undefined) return []
  const key = `${method} ${path} ${answer.status}`
  const response = operation.responses.get(answer.status)
  if (response === undefined) return [`${key} is not documented`]
  if (response.schema === undefined) return answer.text === "" ? [] : [`${key} has a body`]
  const validate = validatorOf(response.schema)
  if (validate(bodyOf(answer))) return []
  const [first] = validate.errors ?? []
  return [`${key} does not fit its schema: ${first?.instancePath} ${first?.message}`]
}

/** A repetition may end otherwise (docs/api.md, "Errors"). */
const isRetryable = (status: number, code: string): boolean =>
  [408, 429, 503].includes(status) || code === "idempotency_in_progress"

const envelopeProblems = (sent: Sent, answer: Answer): ReadonlyArray<string> => {
  if (answer.status < 400 || pathOf(sent) === "/readyz") return []
  const refusal = refusalOf(answer)
  const name = `${methodOf(sent)} ${pathOf(sent)} ${answer.status}`
  if (refusal === undefined) return [`${name} has no envelope`]
  const { code, details, hint, message } = refusal
  const names = code === "dependency_unavailable" || code === "dependency_misconfigured"
  return [
    ...(refusal.retryable === isRetryable(answer.status, code)
      ? []
      : [`${code} has retryable ${refusal.retryable}`]),
    ...(message !== "" && hint !== "" ? [] : [`${code} has no message or no hint`]),
    ...(!names || details.dependency !== undefined ? [] : [`${code} names no dependency`]),
    ...(answer.status === 429 && answer.headers["retry-after"] === undefined
      ? [`${name} has no Retry-After`]
      : [])
  ]
}

/** The form of IAM's credentials. */
const credential = /(?:oat|ort|oac|obo|ask)_[A-Za-z0-9_-]{28,}/
const credentials = new RegExp(credential, "g")
const givesTokens = (sent: Sent) => /^\/api\/v1\/auth\/(?:login|refresh)$/.test(pathOf(sent))

/** What no answer may show, whatever was sent before it. */
export const answerProblems = (sent: Sent, answer: Answer): ReadonlyArray<string> => [
  ...contractProblems(sent, answer),
  ...envelopeProblems(sent, answer),
  ...(credential.test(answer.text) && !(givesTokens(sent) && isSuccess(answer))
    ? [`${methodOf(sent)} ${pathOf(sent)} ${answer.status} ${codeOf(answer)} has a credential`]
    : [])
]

/** The most of these times that lie within one such span; the times are in order. */
const mostWithin = (times: ReadonlyArray<number>, span: number): number => {
  let most = 0
  let first = 0
  for (let last = 0; last < times.length; last += 1) {
    while ((times[last] ?? 0) - (times[first] ?? 0) >= span) first += 1
    most = Math.max(most, last - first + 1)
  }
  return most
}

const minute = 60_000

/** The most calls to one path and plane of IAM that reached it from one process in any minute. */
export const mostIamCalls = (calls: Iterable<UpstreamCall>): number => {
  const times = new Map<string, Array<number>>()
  for (const { at, caller, fault, path, plane, upstream } of calls) {
    if (upstream !== "iam" || fault?.kind === "refused") continue
    const key = `${caller.name} ${plane} ${path}`
    const known = times.get(key)
    if (known === undefined) times.set(key, [at])
    else known.push(at)
  }
  return Math.max(0, ...[...times.values()].map((each) => mostWithin(each, minute)))
}

/** Where credentials are searched; a record is one that was delivered to a table. */
const places = ["log", "issue", "row", "record"] as const

interface OracleParts {
  readonly upstreams: Upstreams
  /** Path of a SQLite file. */
  readonly database: string
  readonly logs: ReadonlyArray<string>
  /** Of one process, for each plane and path of IAM. */
  readonly callsPerMinute: number
}

/** More in one of these problems says nothing new. */
const mostOfOneKind = 5

export const makeOracle = ({ callsPerMinute, database, logs, upstreams }: OracleParts) => {
  const { controls } = upstreams.iam
  const seen = new Set<string>()
  const allowed = new Set<string>()
  const reports = new Set<string>()
  const events = new Set<string>()
  const webhooks = new Set<string>()
  const tings = new Set<string>()
  /** Requests without an answer yet: what they asked for is done once or not at all. */
  let open = 0

  const allowEnd = (token: string, plane?: string): void => {
    const family = controls.familyOf(token)
    if (family === undefined) return
    if (plane === undefined || controls.plane(plane).families.has(family.id)) allowed.add(family.id)
  }

  const acknowledge = (sent: Sent, answer: Answer): void => {
    const fields = fieldsOf(String(sent.body ?? ""))
    const { id } = bodyOf(answer)
    switch (pathOf(sent)) {
      case "/api/v1/reports":
        reports.add(String(id))
        break
      case "/api/v1/tings":
        tings.add(String(id))
        break
      case "/api/v1/telemetry":
        for (const event of Array.isArray(fields.events) ? fields.events : [])
          if (isRecord(event) && typeof event.id === "string") events.add(event.id)
        break
      case "/webhook":
        for (const [name, value] of Object.entries(sent.headers ?? {}))
          if (name.toLowerCase() === "x-silicon-iam-event-id") webhooks.add(value)
        break
      default:
        break
    }
  }

  const endedSessions = () =>
    upstreams.planes.flatMap((plane) =>
      [...controls.plane(plane).families.values()]
        .filter(({ id, status }) => status !== "active" && !allowed.has(id))
        .map(
          ({ actor, status }) =>
            `a login of ${actor} is ${status}, and neither its owner nor the admin ended it`
        )
    )

  const query = (statement: string) => rowsOf(database, statement)
  const once = (what: string, ids: ReadonlySet<string>, found: ReadonlyArray<unknown>, least: 0 | 1) => {
    const counts = new Map<string, number>()
    for (const id of found) counts.set(String(id), (counts.get(String(id)) ?? 0) + 1)
    return [...ids]
      .filter((id) => (counts.get(id) ?? 0) < least || (counts.get(id) ?? 0) > 1)
      .slice(0, mostOfOneKind)
      .map((id) => `${what} ${id} was acknowledged and is there ${counts.get(id) ?? 0} times`)
  }

  /** What was acknowledged is kept, once, and nothing else is. */
  const storedProblems = (): ReadonlyArray<string> => {
    const kept = query("SELECT id FROM reports").map(({ id }) => id)
    const inbox = query("SELECT DISTINCT event_id FROM webhook_inbox").map(({ event_id }) => event_id)
    return [
      ...once("report", reports, kept, 1),
      ...once("webhook", webhooks, inbox, 1),
      ...(kept.length > reports.size + open
        ? [`${kept.length} reports are stored, and ${reports.size} were acknowledged`]
        : []),
      ...once(
        "ting",
        tings,
        upstreams.planes.flatMap((plane) => upstreams.ting.controls.accepted(plane).map(({ id }) => id)),
        1
      )
    ]
  }

  /** At most once: what was acknowledged may still wait. */
  const deliveredProblems = (): ReadonlyArray<string> => {
    const issues = upstreams.issues().filter(({ state }) => state === "open")
    const refs = issues.map(({ body }) => /report-ref: (rep_[^\s-]+)-/.exec(body ?? "")?.[1])
    const rows = upstreams.rows().map(({ record_id }) => record_id)
    return [...once("the issue of report", reports, refs, 0), ...once("event", events, rows, 0)]
  }

  const texts = (): Readonly<Record<(typeof places)[number], string>> => ({
    log: logs.join("\n"),
    issue: upstreams
      .issues()
      .map(({ body, title }) => `${title}\n${body ?? ""}`)
      .join("\n"),
    record: JSON.stringify(upstreams.rows().map(({ metadata, record }) => [metadata, record])),
    row: ["", "-wal"]
      .map((end) => `${database}${end}`)
      .map((file) => (existsSync(file) ? readFileSync(file, "latin1") : ""))
      .join("\n")
  })

  /** Credentials in any place. */
  const leaks = (): ReadonlyArray<string> => {
    const found = texts()
    const minted = new Set(upstreams.minted())
    const others = [...minted].filter((each) => !credential.test(each))
    return places.flatMap((place) =>
      [
        ...[...new Set(found[place].match(credentials))].filter((each) => minted.has(each)),
        ...others.filter((each) => found[place].includes(each))
      ]
        .slice(0, mostOfOneKind)
        .map((each) => `a ${place} has the credential ${each.slice(0, 8)}…`)
    )
  }

  return {
    asked: (sent: Sent): void => {
      open += 1
      if (pathOf(sent) !== "/api/v1/auth/logout") return
      const { token } = fieldsOf(String(sent.body ?? ""))
      const secret = sent.headers?.["x-testing-environment-key"]
      const { environmentId, musicSecret } = upstreams.seeded.environment
      const plane = secret === undefined ? production : secret === musicSecret ? environmentId : undefined
      // A logout in another plane ends nothing.
      if (typeof token === "string" && plane !== undefined) allowEnd(token, plane)
    },
    answered: (sent: Sent, answer: Answer): void => {
      open -= 1
      for (const problem of answerProblems(sent, answer)) seen.add(problem)
      if (isSuccess(answer) && methodOf(sent) === "POST") acknowledge(sent, answer)
    },
    /** The end of this token's session is intended: its owner, the admin or an attacker ends it. */
    allowEnd: (token: string) => allowEnd(token),
    /** Sessions of IAM that ended although nobody intended it. */
    endedSessions,
    /** All that is broken now. */
    problems: (): ReadonlyArray<string> => {
      const most = mostIamCalls(upstreams.calls)
      return [
        ...seen,
        ...endedSessions(),
        ...storedProblems(),
        ...deliveredProblems(),
        ...leaks(),
        ...(most > callsPerMinute ? [`${most} calls to one path of IAM in a minute`] : [])
      ]
    }
  }
}
