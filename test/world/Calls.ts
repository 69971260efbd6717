/**
 * One row for each call of the API: what it needs, a valid request for a new caller, the paths of the upstreams that it calls, and what it
 * leaves behind. Suites iterate the rows; a new endpoint is one row here.
 */
import { production } from "../../sandbox/upstreams/Iam.ts"
import { type Answer, bodyOf, json, requests, type Sent } from "./Driver.ts"
import type { PathName } from "./Faults.ts"
import { seenAt } from "./InMemory.ts"
import { rowsOf } from "./Oracle.ts"
import { origins } from "./Upstreams.ts"
import type { Instance, World } from "./World.ts"

/** One caller of one call. */
export interface Subject {
  readonly request: Sent
  /** Words for what is left behind now, and how often; empty when nothing is. */
  readonly state: () => Promise<string>
}

interface Preparation {
  readonly world: World
  /** Unique in the world; part of names and keys. */
  readonly name: string
}

export interface Call {
  /** In docs/openapi.json. */
  readonly operation: string
  /** The paths of the upstreams, in the order of their first calls, without those of the work that follows. */
  readonly calls: ReadonlyArray<PathName>
  readonly prepare: (preparation: Preparation) => Subject
}

const numberOf = ({ database }: World, selected: string): number =>
  Number(rowsOf(database, `SELECT ${selected.replace(" FROM", " AS number FROM")}`)[0]?.number ?? 0)
const keyOf = (name: string) => `matrix-key-${name.padStart(12, "0")}`

export const organisation = "acme"

/** An actor of the organisation, unless there is one of that name. */
export const addActor = ({ upstreams }: World, actor: string, plane: string = production): string => {
  const { controls } = upstreams.iam
  if (controls.plane(plane).actors.has(actor)) return actor
  controls.addActor(plane, actor)
  controls.addMembership(plane, actor, organisation)
  return actor
}

const actorOf = ({ name, world }: Preparation, plane: string = production): string =>
  addActor(world, `si:actor-${name}`, plane)

export interface Tokens {
  readonly access: string
  readonly refresh: string
}

/** What a login or refresh gave. */
export const tokensOf = (answer: Answer): Tokens | undefined => {
  const { access_token, refresh_token } = bodyOf(answer)
  return typeof access_token === "string" && typeof refresh_token === "string"
    ? { access: access_token, refresh: refresh_token }
    : undefined
}

let prepared = 0

/** A login at IAM itself, so that the service knows nothing of it and its own calls begin with the test. */
export const logInAtIam = ({ time, upstreams }: World, actor: string, plane: string = production): Tokens => {
  const { controls, handle } = upstreams.iam
  const { environment, production: seeded } = upstreams.seeded
  const isTesting = plane !== production
  const secret = isTesting ? environment.musicSecret : seeded.musicSecret
  const slt = isTesting ? actor : controls.mintSlt(plane, { appId: "music", actor })
  const authorization = `Basic ${Buffer.from(`music:${secret}`).toString("base64")}`
  prepared += 1
  const call = seenAt(time.now(), {
    method: "POST",
    url: new URL("/api/v1/app-auth/tokens", origins.iam),
    headers: {
      authorization,
      ...(isTesting ? { "x-testing-application": authorization } : {}),
      "content-type": "application/x-www-form-urlencoded",
      "idempotency-key": `prepared-${String(prepared).padStart(12, "0")}`
    },
    body: new URLSearchParams({ app_id: "music", slt }).toString()
  })
  const { body, status } = handle(call)
  if (status !== 200) throw new Error(`IAM refused a login with ${status}`)
  // The simulator's own answer to a login.
  const tokens = body as { readonly access_token: string; readonly refresh_token: string }
  return { access: tokens.access_token, refresh: tokens.refresh_token }
}

const familiesOf = ({ upstreams }: World, actor: string) =>
  [...upstreams.iam.controls.plane(production).families.values()].filter((family) => family.actor === actor)

const grantsOf = ({ upstreams }: World, actor: string) =>
  upstreams.ting.controls.grants(production).filter((grant) => grant.for === actor)
const isGranted = (world: World, actor: string): boolean =>
  grantsOf(world, actor).some(({ active }) => active)

/** What happened more often than once. */
const more = (count: number, what: string): string => (count > 1 ? `, ${count} ${what}` : "")

const login = (given: Preparation): Subject => {
  const { name, world } = given
  const actor = actorOf(given)
  const { controls } = world.upstreams.iam
  const slt = controls.mintSlt(production, { appId: "music", actor })
  return {
    request: requests.login(slt, keyOf(name)),
    state: async () => {
      const isSpent = controls.plane(production).slts.get(slt)?.spent === true
      const twice =
        more(familiesOf(world, actor).length, "sessions") + more(grantsOf(world, actor).length, "grants")
      return `${isSpent ? "spent" : "unspent"}${isGranted(world, actor) ? ", registered" : ""}${twice}`
    }
  }
}

const refresh = (given: Preparation): Subject => {
  const { name, world } = given
  const actor = actorOf(given)
  const pair = logInAtIam(world, actor)
  return {
    request: requests.refresh(pair.refresh, keyOf(name)),
    state: async () => {
      const token = world.upstreams.iam.controls.plane(production).refreshTokens.get(pair.refresh)
      const status = token?.family.status ?? "gone"
      return `${token?.consumed === true ? "spent" : "unspent"}${status === "active" ? "" : `, ${status}`}`
    }
  }
}

const logout = (given: Preparation): Subject => {
  const { name, world } = given
  const actor = actorOf(given)
  const pair = logInAtIam(world, actor)
  const isEnded = () => familiesOf(world, actor).every(({ status }) => status === "revoked")
  return {
    request: requests.logout(pair.refresh, keyOf(name)),
    state: async () => (isEnded() ? "ended" : "live")
  }
}

const subscription = (given: Preparation): Subject => {
  const { world } = given
  const actor = actorOf(given)
  const isKnown = () =>
    numberOf(world, `COUNT(*) FROM recipients WHERE public_id = '${actor}' AND active = 1`) > 0
  return {
    request: requests.subscribe(logInAtIam(world, actor).access),
    state: async () => {
      const known = isKnown()
      const granted = isGranted(world, actor)
      const twice = more(grantsOf(world, actor).length, "grants")
      if (granted === known) return granted ? `registered${twice}` : ""
      return granted ? "registered, unrecorded" : "recorded, unregistered"
    }
  }
}

/** Has a registration with Ting, because a ting needs a recipient. */
const sender = "si:sender"

/** Once for each database, before the first ting. */
export const registerSender = async (world: World, instance: Instance): Promise<void> => {
  const { access } = logInAtIam(world, addActor(world, sender))
  const { status } = await world.time.complete(instance.send("192.0.2.1", requests.subscribe(access)))
  if (status !== 200) throw new Error(`the sender was not registered: ${status}`)
}

const ting = ({ name, world }: Preparation): Subject => {
  const { access } = logInAtIam(world, addActor(world, sender))
  // By its data, so that a ting under another key counts too.
  const delivered = () =>
    world.upstreams.ting.controls
      .accepted(production)
      .filter(({ data }) => typeof data === "object" && data !== null && "cell" in data && data.cell === name)
      .length
  return {
    request: requests.ting(access, `${sender}/${name}`, { cell: name }),
    state: async () => (delivered() === 0 ? "" : `delivered${more(delivered(), "times")}`)
  }
}

const message = (name: string) => `Playback stops after a seek, for the ${name}th time.`

const verifiedReport = (given: Preparation): Subject => {
  const { name, world } = given
  // Those of other callers are counted, too.
  const stored = () => numberOf(world, "COUNT(*) FROM deliveries")
  return {
    request: requests.report(message(name), keyOf(name), logInAtIam(world, actorOf(given)).access),
    state: async () => (stored() === 0 ? "not stored" : `stored${more(stored(), "times")}`)
  }
}

/** A request of which nothing else is asked. */
const plain =
  (request: (given: Preparation) => Sent) =>
  (given: Preparation): Subject => ({ request: request(given), state: () => Promise.resolve("") })
const me = plain((given) => requests.me(logInAtIam(given.world, actorOf(given)).access))
const meInTesting = plain((given) => {
  const { environmentId, musicSecret } = given.world.upstreams.seeded.environment
  const { access } = logInAtIam(given.world, actorOf(given, environmentId), environmentId)
  return requests.me(access, musicSecret)
})
const webhook = plain(({ world }) => {
  const { iam, seeded } = world.upstreams
  const id = seeded.production.organizations.acme
  const { body, headers } = iam.controls.buildWebhook(production, {
    eventType: "organization.updated.v1",
    aggregate: { type: "organization", id, version: 2 },
    organizationId: id,
    data: {}
  })
  return { method: "POST", path: "/webhook/", headers: { ...json, ...headers }, body: Buffer.from(body) }
})
const get = (path: string) => plain(() => ({ path }))

const row = (operation: string, calls: ReadonlyArray<PathName>, prepare: Call["prepare"]): Call => ({
  operation,
  calls,
  prepare
})

export const calls = {
  login: row("auth.login", ["tokens", "catalogue", "introspect", "proof", "registration"], login),
  refresh: row("auth.refresh", ["tokens", "introspect"], refresh),
  logout: row("auth.logout", ["revoke"], logout),
  me: row("auth.me", ["introspect"], me),
  "me in a testing environment": row("auth.me", ["context", "introspect"], meInTesting),
  "iam in a testing environment": row(
    "descriptors.iam",
    ["context"],
    plain(({ world }) => requests.plane(world.upstreams.seeded.environment.musicSecret))
  ),
  subscription: row("tings.subscribe", ["introspect", "catalogue", "proof", "registration"], subscription),
  ting: row("tings.send", ["introspect", "catalogue", "proof", "ting"], ting),
  "report with a bearer": row("reports.submit", ["introspect"], verifiedReport),
  "report without a bearer": row(
    "reports.submit",
    [],
    plain(({ name }) => requests.report(message(name), keyOf(name)))
  ),
  telemetry: row(
    "telemetry.accept",
    [],
    plain(() =>
      requests.telemetry([{ id: "00000000-0000-4000-8000-000000000001", type: "playback.started" }])
    )
  ),
  webhook: row("webhooks.receive", [], webhook),
  iam: row("descriptors.iam", [], get("/api/v1/iam")),
  version: row("descriptors.version", [], get("/api/v1/version")),
  healthz: row("system.healthz", [], get("/healthz")),
  readyz: row("system.readyz", [], get("/readyz"))
} as const satisfies Readonly<Record<string, Call>>

export type CallName = keyof typeof calls

// The keys of the constant above.
export const callNames = Object.keys(calls) as ReadonlyArray<CallName>
