/** What a person or machine does with its own Ting session (notification-service.md 9 and 10): inbox, grants, muting, types. */
import type { Now, Reply, Seen } from "../Simulator.ts"
import type { Authority } from "./Authority.ts"
import { readBearer } from "./Gate.ts"
import {
  exactly,
  type Fields,
  flag,
  isAppId,
  isCursor,
  isDescription,
  isOrgId,
  isService,
  isType,
  limitOf,
  optionalText,
  text
} from "./Grammar.ts"
import { grantView, revoke } from "./Grants.ts"
import { type Filter, listName, markRead, messageIds, tingsOf, tingView } from "./Inbox.ts"
import {
  findOrg,
  type Grant,
  type Org,
  type Plane,
  pageOf,
  planeOf,
  type Scope,
  type Session,
  type State,
  trustOrg,
  uuid
} from "./Model.ts"
import { clearPreference, preferencesOf, preferenceView, setPreference } from "./Preferences.ts"
import { invalidInput, Refusal } from "./Refusal.ts"
import { describeType, registerType, typesOf, typeView } from "./Types.ts"

interface Visit {
  readonly session: Session
  readonly plane: Plane
  readonly org: Org
  readonly request: Seen
  readonly fields: Fields
  readonly now: number
}

const query = (request: Seen, name: string, fits: (value: string) => boolean): string | undefined => {
  const value = request.query.get(name)
  if (value !== null && !fits(value)) throw invalidInput(`${name} is not acceptable`)
  return value ?? undefined
}

const queryFlag = (request: Seen, name: string): boolean | undefined => {
  const value = request.query.get(name)
  return value === null ? undefined : value === "true"
}

const paging = (request: Seen) => ({
  limit: limitOf(request.query.get("limit") ?? undefined),
  cursor: query(request, "cursor", isCursor)
})

const mine = ({ session, plane, org, now }: Visit) => tingsOf(plane, now, { org, for: session.actor })

const listInbox = ({ session, plane, org, request, now }: Visit): Reply => {
  const filter: Filter = {
    org,
    for: session.actor,
    appId: query(request, "app_id", isAppId),
    type: query(request, "type", isType),
    read: queryFlag(request, "read"),
    silent: queryFlag(request, "silent")
  }
  const { items, ...next } = pageOf(
    plane,
    listName("inbox", filter),
    tingsOf(plane, now, filter),
    paging(request)
  )
  return { status: 200, body: { items: items.map(tingView), ...next } }
}

const showTing = (visit: Visit, id: string): Reply => {
  const ting = mine(visit).find((candidate) => candidate.id === id)
  if (ting === undefined) throw new Refusal("not_found")
  return { status: 200, body: tingView(ting) }
}

const readInbox = (visit: Visit): Reply => {
  exactly(visit.fields, ["message_ids"])
  const done = markRead(mine(visit), messageIds(visit.fields.get("message_ids")))
  if (done === undefined) throw new Refusal("not_found")
  return { status: 200, body: done }
}

const ownGrants = ({ session, plane, org }: Visit) =>
  plane.grants.filter((grant) => grant.org === org && grant.actor === session.actor)

const listGrants = (visit: Visit): Reply => {
  const { items, ...next } = pageOf(
    visit.plane,
    JSON.stringify(["own grants", visit.org.handle, visit.session.actor]),
    ownGrants(visit),
    paging(visit.request)
  )
  return { status: 200, body: { items: items.map(grantView), ...next } }
}

const ownGrant = (visit: Visit, id: string): Grant => {
  const grant = ownGrants(visit).find((candidate) => candidate.id === id)
  if (grant === undefined) throw new Refusal("not_found")
  return grant
}

const optInView = (grant: Grant) => ({
  id: grant.id,
  app_id: grant.appId,
  for: grant.actor,
  enabled: grant.requiredDelivery
})

/** A revoked grant has no opt-in to set: registering again comes first (assumed 404). */
const setOptIn = (visit: Visit, id: string): Reply => {
  exactly(visit.fields, ["enabled"])
  const grant = ownGrant(visit, id)
  const enabled = flag(visit.fields, "enabled")
  if (enabled && !grant.active) throw new Refusal("not_found")
  grant.requiredDelivery = enabled
  return { status: 200, body: optInView(grant) }
}

/** An application, one service of it, or one of its types; service and type together are refused. */
const readScope = (appId: string, service: string | undefined, type: string | undefined): Scope => {
  if (service !== undefined && type !== undefined) throw invalidInput("send service or type, not both")
  if (type !== undefined && !type.startsWith(`${appId}.`)) throw invalidInput("type is another application's")
  return { appId, service: service ?? null, type: type ?? null }
}

const scopeFields = (fields: Fields): Scope => {
  const present = new Map([...fields].filter(([, value]) => value.kind !== "literal" || value.value !== null))
  return readScope(
    text(present, "app_id", isAppId),
    optionalText(present, "service", isService),
    optionalText(present, "type", isType)
  )
}

const putPreference = ({ session, plane, org, fields }: Visit): Reply => {
  exactly(fields, ["app_id", "enabled"], ["service", "type"])
  const scope = scopeFields(fields)
  const enabled = flag(fields, "enabled")
  setPreference(plane, org, session.actor, scope, enabled)
  return { status: 200, body: preferenceView(scope, enabled) }
}

/** The scope in the body; answers the default that counts again (assumed). */
const deletePreference = ({ session, plane, org, fields }: Visit): Reply => {
  exactly(fields, ["app_id"], ["service", "type"])
  const scope = scopeFields(fields)
  clearPreference(plane, org, session.actor, scope)
  return { status: 200, body: preferenceView(scope, true) }
}

const listPreferences = ({ session, plane, org }: Visit): Reply => ({
  status: 200,
  body: {
    items: preferencesOf(plane, org, session.actor).map(({ scope, enabled }) =>
      preferenceView(scope, enabled)
    )
  }
})

const administered = ({ session }: Visit, appId: string): string => {
  if (!session.administers.includes(appId)) throw new Refusal("permission_denied")
  return appId
}

const addType = (visit: Visit, app: string): Reply => {
  const appId = administered(visit, app)
  exactly(visit.fields, ["type", "description"])
  const { type, created } = registerType(
    visit.plane,
    appId,
    text(visit.fields, "type", isType),
    text(visit.fields, "description", isDescription)
  )
  return { status: created ? 201 : 200, body: typeView(type) }
}

const patchType = (visit: Visit, app: string, type: string): Reply => {
  const appId = administered(visit, app)
  exactly(visit.fields, ["description"])
  const description = text(visit.fields, "description", isDescription)
  return { status: 200, body: typeView(describeType(visit.plane, appId, type, description)) }
}

const listTypes = (visit: Visit, app: string): Reply => {
  const appId = administered(visit, app)
  const { items, ...next } = pageOf(
    visit.plane,
    JSON.stringify(["types", appId]),
    typesOf(visit.plane, appId),
    paging(visit.request)
  )
  return { status: 200, body: { items: items.map(typeView), ...next } }
}

type Route = (visit: Visit, first: string, second: string) => Reply

/** Method and path below `/v1/orgs/{org}`; `*` stands for one segment. */
const routes: ReadonlyMap<string, Route> = new Map<string, Route>([
  ["GET /inbox", listInbox],
  ["GET /inbox/*", showTing],
  ["POST /inbox/read", readInbox],
  ["GET /subscriptions", listGrants],
  ["DELETE /subscriptions/*", (visit, id) => ({ status: 200, body: revoke(ownGrant(visit, id)) })],
  [
    "GET /subscriptions/*/required-delivery",
    (visit, id) => ({ status: 200, body: optInView(ownGrant(visit, id)) })
  ],
  ["PUT /subscriptions/*/required-delivery", setOptIn],
  ["GET /preferences", listPreferences],
  ["PUT /preferences", putPreference],
  ["DELETE /preferences", deletePreference],
  ["POST /apps/*/types", addType],
  ["GET /apps/*/types", listTypes],
  ["PATCH /apps/*/types/*", patchType]
])

const findRoute = (
  method: string,
  segments: ReadonlyArray<string>
): { readonly run: Route; readonly params: ReadonlyArray<string> } | undefined => {
  for (const [name, run] of routes) {
    const [wanted = "", pattern = ""] = name.split(" ")
    const parts = pattern.split("/").slice(1)
    const fits =
      wanted === method &&
      parts.length === segments.length &&
      parts.every((part, index) => part === "*" || part === segments[index])
    if (fits) return { run, params: segments.filter((_, index) => parts[index] === "*") }
  }
  return undefined
}

/** Path segments, decoded; `undefined` when one is not valid percent-encoding. */
const segmentsOf = (path: string): ReadonlyArray<string> | undefined => {
  try {
    return path.split("/").slice(1).map(decodeURIComponent)
  } catch {
    return undefined
  }
}

/**
 * Answers everything that is not a proved call: first the session, then the route, so that an unknown path or a
 * wrong method without a session is 401 and never 405 (notification-service.md 2).
 */
export const answerSession = async (
  state: State,
  authority: Authority,
  now: Now,
  request: Seen,
  fields: Fields
): Promise<Reply> => {
  const session = state.sessions.get(readBearer(request))
  if (session === undefined) throw new Refusal("authentication_required")
  if (request.headers.has("iam_test_app_secret") || request.headers.has("x-testing-environment-key")) {
    const selected = await authority.select(request)
    if (selected.id !== session.plane) throw new Refusal("test_context_mismatch")
  }
  const [version, orgs, orgName = "", ...rest] = segmentsOf(request.path) ?? []
  const route = version === "v1" && orgs === "orgs" ? findRoute(request.method, rest) : undefined
  if (route === undefined) throw new Refusal("not_found")
  const plane = planeOf(state, session.plane)
  if (findOrg(plane, orgName) === undefined && (uuid.test(orgName) || !isOrgId(orgName)))
    throw new Refusal("not_found")
  const org = trustOrg(plane, orgName)
  const within = session.orgs ?? [org.handle]
  if (!within.includes(org.handle) && !within.includes(org.id ?? "")) throw new Refusal("permission_denied")
  const [first = "", second = ""] = route.params
  return route.run({ session, plane, org, request, fields, now: now() }, first, second)
}
