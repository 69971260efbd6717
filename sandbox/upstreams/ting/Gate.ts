/** The checks that come before any credential is looked at, in the order of notification-service.md 2, steps 1 to 7. */
import type { Seen } from "../Simulator.ts"
import { type Json, JsonProblem, parseJson, textOf } from "../StrictJson.ts"
import { type Fields, isActor, isAppId, isCursor, isOrgId, isType } from "./Grammar.ts"
import { invalidInput, Refusal } from "./Refusal.ts"

const bodyLimit = 1_048_576
const tingLimit = 262_144

/** The one value of a header, `undefined` when absent. A repeated one is `invalid_input`. */
export const single = (request: Seen, name: string): string | undefined => {
  const values = request.headers.get(name) ?? []
  if (values.length > 1) throw invalidInput(`${name} was sent more than once`)
  return values[0]
}

const checkQuery = (query: URLSearchParams): void => {
  for (const name of query.keys())
    if (query.getAll(name).length > 1) throw invalidInput("a query parameter is repeated")
  const limit = query.get("limit")
  if (limit !== null && !/^-?[0-9]+$/.test(limit)) throw invalidInput("limit must be an integer")
  for (const name of ["read", "silent"]) {
    const value = query.get(name)
    if (value !== null && value !== "true" && value !== "false")
      throw invalidInput(`${name} must be true or false`)
  }
}

const parseBody = (body: Buffer): Fields => {
  if (body.length === 0) return new Map()
  try {
    const json = parseJson(body)
    if (json.kind !== "object") throw invalidInput("the body must be a JSON object")
    return json.fields
  } catch (problem) {
    throw problem instanceof JsonProblem
      ? invalidInput(`the body is not strict JSON: ${problem.message}`)
      : problem
  }
}

const nonEmpty = (value: string) => value.length > 0

const textGrammars: ReadonlyArray<readonly [string, (value: string) => boolean]> = [
  ["app_id", isAppId],
  ["for", isActor],
  ["org_id", isOrgId],
  ["type", isType],
  ["id", nonEmpty],
  ["cursor", isCursor]
]

const isFlag = (json: Json): boolean => json.kind === "literal" && typeof json.value === "boolean"
const isWhole = (json: Json): boolean => json.kind === "number" && /^-?[0-9]+$/.test(json.text)

/** Only the grammar of what is there and a string: kinds and presence are checked later, behind the bearer. */
const checkGrammar = (fields: Fields): void => {
  for (const [name, fits] of textGrammars) {
    const value = textOf(fields.get(name))
    if (value !== undefined && !fits(value)) throw invalidInput(`${name} is not acceptable`)
  }
  const limit = fields.get("limit")
  if (limit !== undefined && !isWhole(limit)) throw invalidInput("limit must be an integer")
  for (const name of ["read", "silent"]) {
    const value = fields.get(name)
    if (value !== undefined && !isFlag(value)) throw invalidInput(`${name} must be true or false`)
  }
}

/** The fields of an acceptable request. Throws the first refusal. */
export const readRequest = (request: Seen, origins: ReadonlyArray<string>): Fields => {
  const origin = request.headers.get("origin")
  if (origin !== undefined && !(origin.length === 1 && origins.includes(origin[0] ?? "")))
    throw new Refusal("permission_denied", "this origin is not allowed")
  if (request.body.length > bodyLimit) throw new Refusal("payload_too_large")
  if (request.body.length > 0 && single(request, "content-type")?.split(";")[0] !== "application/json")
    throw invalidInput("the content type must be application/json")
  checkQuery(request.query)
  if (request.path === "/v1/tings" && request.body.length > tingLimit) throw new Refusal("payload_too_large")
  const fields = parseBody(request.body)
  checkGrammar(fields)
  return fields
}

/** Step 8: the bearer, 1 to 8192 bytes after a case-sensitive `Bearer `. */
export const readBearer = (request: Seen): string => {
  const values = request.headers.get("authorization") ?? []
  const [value = ""] = values
  const bearer = value.startsWith("Bearer ") ? value.slice("Bearer ".length) : ""
  if (values.length !== 1 || bearer === "" || bearer.length > 8192)
    throw new Refusal("authentication_required")
  return bearer
}
