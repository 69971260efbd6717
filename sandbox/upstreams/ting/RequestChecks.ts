/** The checks before the credentials, in the order of notification-service.md 2, steps 1 to 7, and reading the bearer. */
import { isRecord, type JsonObject, parseJson } from "../Json.ts"
import type { Seen } from "../Simulator.ts"
import { invalidInput, TingError } from "./Errors.ts"
import { isActor, isAppId, isOrgId, isType } from "./Fields.ts"

const bodyLimit = 1_048_576
const tingLimit = 262_144

/** The value of a header; `undefined` when it is absent. A repeated header is `invalid_input`. */
export const single = (request: Seen, name: string): string | undefined => {
  const values = request.headers.get(name) ?? []
  if (values.length > 1) throw invalidInput(`${name} was sent more than once`)
  return values[0]
}

const parseBody = (body: Buffer): JsonObject => {
  const json = body.length === 0 ? {} : parseJson(body)
  if (!isRecord(json)) throw invalidInput("the body must be a JSON object")
  return json
}

const formats: ReadonlyArray<readonly [string, (value: string) => boolean]> = [
  ["app_id", isAppId],
  ["for", isActor],
  ["org_id", isOrgId],
  ["type", isType]
]

/** Checks only the format of strings that are present. Kinds and presence are checked after the bearer. */
const checkFormats = (fields: JsonObject): void => {
  for (const [name, fits] of formats) {
    const value = fields[name]
    if (typeof value === "string" && !fits(value)) throw invalidInput(`${name} is not acceptable`)
  }
}

/** The fields of an acceptable request. Throws the first error. */
export const readRequest = (request: Seen): JsonObject => {
  const origin = request.headers.get("origin")
  if (origin !== undefined) throw new TingError("permission_denied", "browsers are not allowed")
  if (request.body.length > bodyLimit) throw new TingError("payload_too_large")
  if (request.body.length > 0 && single(request, "content-type")?.split(";")[0] !== "application/json")
    throw invalidInput("the content type must be application/json")
  if (request.path === "/v1/tings" && request.body.length > tingLimit)
    throw new TingError("payload_too_large")
  const fields = parseBody(request.body)
  checkFormats(fields)
  return fields
}

/** Step 8: the bearer, 1 to 8192 bytes after a case-sensitive `Bearer `. */
export const readBearer = (request: Seen): string => {
  const values = request.headers.get("authorization") ?? []
  const [value = ""] = values
  const bearer = value.startsWith("Bearer ") ? value.slice("Bearer ".length) : ""
  if (values.length !== 1 || bearer === "" || bearer.length > 8192)
    throw new TingError("authentication_required")
  return bearer
}
