/** The operations of the matrix: how each is prepared, asked and repeated, and what it leaves behind. */
import * as Effect from "effect/Effect"
import type { InMemoryRequest, InMemoryResponse } from "../../support/InMemoryServer.ts"
import type { Server } from "./Server.ts"
import type { World } from "./World.ts"

/** One caller of one cell. */
export interface Subject {
  readonly request: InMemoryRequest
  /** What is left behind now, in the words of the table; empty when the operation leaves nothing. */
  readonly state: Effect.Effect<string>
  /** What is wrong after a repetition that succeeded: it must have happened once. */
  readonly problems: (answer: InMemoryResponse) => Effect.Effect<ReadonlyArray<string>>
}

export interface Preparation {
  readonly world: World
  readonly server: Server
  /** Unique for each cell; part of names and keys. */
  readonly name: string
}

type Prepare = (preparation: Preparation) => Effect.Effect<Subject>

const production = "production"
const json = { "content-type": "application/json" }
const keyOf = (name: string) => ({ "idempotency-key": `matrix-key-${name.padStart(12, "0")}` })
const noProblems = () => Effect.succeed<ReadonlyArray<string>>([])
const noState = Effect.succeed("")

/** What a success adds to its status: the outcome of a registration, or that the reporter is not verified. */
export const detailOf = (name: string, answer: InMemoryResponse): string => {
  const body = bodyOf(answer)
  const registration = body.ting
  if (typeof registration === "object" && registration !== null && "error" in registration)
    return ` ting.error ${String(registration.error)}`
  return name === "report with a bearer" && answer.status === 200 && body.reporter === null
    ? " unverified"
    : ""
}

const bodyOf = (answer: InMemoryResponse): Readonly<Record<string, unknown>> => {
  const body: unknown = answer.text === "" ? {} : JSON.parse(answer.text)
  return typeof body === "object" && body !== null ? { ...body } : {}
}

const addActor = ({ name, world }: Preparation, plane: string = production): string => {
  const actor = `si:actor-${name}`
  world.iam.controls.addActor(plane, actor)
  world.iam.controls.addMembership(plane, actor, "acme")
  return actor
}

interface Pair {
  readonly access: string
  readonly refresh: string
}

/** A login at IAM itself, so that the service knows nothing of it and its own calls begin with the cell. */
const logIn = (
  { name, world }: Pick<Preparation, "name" | "world">,
  actor: string,
  plane: string = production
): Pair => {
  const { controls, handle } = world.iam
  const testing = plane !== production
  const secret = testing ? world.seeded.environment.musicSecret : world.seeded.production.musicSecret
  const slt = testing ? actor : controls.mintSlt(plane, { appId: "music", actor })
  const authorization = `Basic ${Buffer.from(`music:${secret}`).toString("base64")}`
  const { body } = handle({
    at: world.time.now(),
    method: "POST",
    path: "/api/v1/app-auth/tokens",
    query: new URLSearchParams(),
    headers: new Map([
      ["authorization", [authorization]],
      ...(testing ? [["x-testing-application", [authorization]] as const] : []),
      ["content-type", ["application/x-www-form-urlencoded"]],
      ["idempotency-key", [`prepared-${name.padStart(12, "0")}`]]
    ]),
    body: Buffer.from(new URLSearchParams({ app_id: "music", slt }).toString()),
    status: undefined
  })
  // The simulator's own answer to a login.
  const tokens = body as { readonly access_token: string; readonly refresh_token: string }
  return { access: tokens.access_token, refresh: tokens.refresh_token }
}

const familiesOf = (world: World, actor: string, plane: string = production) =>
  [...world.iam.controls.plane(plane).families.values()].filter((family) => family.actor === actor)

const bearer = (token: string) => ({ authorization: `Bearer ${token}`, "x-org-id": "acme" })

const hasGrant = (world: World, actor: string): boolean =>
  world.ting.grants(production).some((grant) => grant.for === actor && grant.active)

/** The answer's pair is live, and belongs to the only family of the actor. */
const pairProblems = (world: World, actor: string, answer: InMemoryResponse, issued: number) => {
  const { accessTokens, refreshTokens } = world.iam.controls.plane(production)
  const body = bodyOf(answer)
  const families = familiesOf(world, actor)
  const access = accessTokens.get(String(body.access_token))
  const refresh = refreshTokens.get(String(body.refresh_token))
  const ofActor = [...refreshTokens.values()].filter(({ family }) => family.actor === actor).length
  return [
    ...(families.length === 1 ? [] : [`${families.length} sessions instead of one`]),
    ...(families[0]?.status === "active" ? [] : [`the session is ${families[0]?.status}`]),
    ...(access !== undefined && !access.revoked ? [] : ["the access token of the answer is not live"]),
    ...(refresh !== undefined && !refresh.consumed ? [] : ["the refresh token of the answer is not live"]),
    ...(ofActor === issued ? [] : [`${ofActor} refresh tokens were issued, not ${issued}`]),
    ...(typeof body.expires_in === "number" && body.expires_in > 1_600 && body.expires_in <= 1_800
      ? []
      : [`expires_in is ${String(body.expires_in)}`])
  ]
}

const login: Prepare = (given) =>
  Effect.sync(() => {
    const { world, name } = given
    const actor = addActor(given)
    const slt = world.iam.controls.mintSlt(production, { appId: "music", actor })
    return {
      request: {
        path: "/api/v1/auth/login",
        headers: { ...json, ...keyOf(name) },
        body: JSON.stringify({ slt })
      },
      state: Effect.sync(() => {
        const spent = world.iam.controls.plane(production).slts.get(slt)?.spent === true
        return [spent ? "spent" : "unspent", ...(hasGrant(world, actor) ? ["registered"] : [])].join(", ")
      }),
      problems: (answer) =>
        Effect.sync(() => [
          ...pairProblems(world, actor, answer, 1),
          ...(world.ting.grants(production).filter((grant) => grant.for === actor).length > 1
            ? ["more than one grant"]
            : [])
        ])
    }
  })

const refresh: Prepare = (given) =>
  Effect.sync(() => {
    const { world, name } = given
    const actor = addActor(given)
    const pair = logIn(given, actor)
    return {
      request: {
        path: "/api/v1/auth/refresh",
        headers: { ...json, ...keyOf(name) },
        body: JSON.stringify({ refresh_token: pair.refresh })
      },
      state: Effect.sync(() => {
        const token = world.iam.controls.plane(production).refreshTokens.get(pair.refresh)
        const status = token?.family.status ?? "gone"
        return `${token?.consumed === true ? "spent" : "unspent"}${status === "active" ? "" : `, ${status}`}`
      }),
      problems: (answer) => Effect.sync(() => pairProblems(world, actor, answer, 2))
    }
  })

const logout: Prepare = (given) =>
  Effect.sync(() => {
    const { world, name } = given
    const actor = addActor(given)
    const pair = logIn(given, actor)
    const isEnded = () => familiesOf(world, actor).every(({ status }) => status === "revoked")
    return {
      request: {
        path: "/api/v1/auth/logout",
        headers: { ...json, ...keyOf(name) },
        body: JSON.stringify({ token: pair.refresh })
      },
      state: Effect.sync(() => (isEnded() ? "ended" : "live")),
      problems: () => Effect.sync(() => (isEnded() ? [] : ["the session has not ended"]))
    }
  })

const me: Prepare = (given) =>
  Effect.sync(() => ({
    request: { path: "/api/v1/auth/me", headers: bearer(logIn(given, addActor(given)).access) },
    state: noState,
    problems: noProblems
  }))

const meInTesting: Prepare = (given) =>
  Effect.sync(() => {
    const { environmentId, musicSecret } = given.world.seeded.environment
    const { access } = logIn(given, addActor(given, environmentId), environmentId)
    return {
      request: {
        path: "/api/v1/auth/me",
        headers: { ...bearer(access), "x-testing-environment-key": musicSecret }
      },
      state: noState,
      problems: (answer) =>
        Effect.succeed(
          bodyOf(answer).testing_environment_id === environmentId ? [] : ["answered in another plane"]
        )
    }
  })

const plane: Prepare = ({ world }) =>
  Effect.succeed({
    request: {
      path: "/api/v1/iam",
      headers: { "x-testing-environment-key": world.seeded.environment.musicSecret }
    },
    state: noState,
    problems: noProblems
  })

const subscription: Prepare = (given) =>
  Effect.sync(() => {
    const { server, world } = given
    const actor = addActor(given)
    const { access } = logIn(given, actor)
    const isKnown = server.store.recipients
      .isActive({ plane: production, organisation: "acme", publicId: actor })
      .pipe(Effect.orDie)
    return {
      request: subscribe(access),
      state: Effect.map(isKnown, (known) => {
        const granted = hasGrant(world, actor)
        if (granted === known) return granted ? "registered" : ""
        return granted ? "registered, unrecorded" : "recorded, unregistered"
      }),
      problems: () =>
        Effect.map(isKnown, (known) => [
          ...(known ? [] : ["the registration is not recorded"]),
          ...(world.ting.grants(production).filter((grant) => grant.for === actor).length === 1
            ? []
            : ["not exactly one grant"])
        ])
    }
  })

/** Registered with Ting by `registerSender`, because a ting needs a recipient. */
const sender = "si:sender"

const subscribe = (access: string): InMemoryRequest => ({
  path: "/api/v1/ting/subscription",
  headers: { ...json, ...bearer(access) },
  body: "{}"
})

/** Once for a world, before any cell. */
export const registerSender = (world: World, server: Server): Effect.Effect<void> =>
  Effect.gen(function* () {
    world.iam.controls.addActor(production, sender)
    world.iam.controls.addMembership(production, sender, "acme")
    const { access } = logIn({ world, name: "sender" }, sender)
    const { status } = yield* Effect.promise(() => server.send("192.0.2.1", subscribe(access)))
    if (status !== 200) yield* Effect.dieMessage(`the sender was not registered: ${status}`)
  })

const isOfCell = (data: unknown, name: string): boolean =>
  typeof data === "object" && data !== null && "cell" in data && data.cell === name

const ting: Prepare = (given) =>
  Effect.sync(() => {
    const { name, world } = given
    const { access } = logIn(given, sender)
    const key = `${sender}/${name}`
    // By its data, so that a ting under another key counts too.
    const delivered = () => world.ting.accepted(production).filter(({ data }) => isOfCell(data, name)).length
    return {
      request: {
        path: "/api/v1/tings",
        headers: { ...json, ...bearer(access) },
        body: JSON.stringify({ type: "music.trigger.fired", key, data: { cell: name } })
      },
      state: Effect.sync(() =>
        delivered() === 0 ? "" : delivered() === 1 ? "delivered" : `delivered ${delivered()} times`
      ),
      problems: (answer) =>
        Effect.sync(() => [
          ...(delivered() === 1 ? [] : [`the ting was delivered ${delivered()} times`]),
          ...(typeof bodyOf(answer).id === "string" ? [] : ["the answer has no id"])
        ])
    }
  })

const reportBody = (name: string) =>
  JSON.stringify({ message: `Playback stops after a seek, for the ${name}th time.` })

const report: Prepare = (given) =>
  Effect.sync(() => {
    const { name, server } = given
    const actor = addActor(given)
    const { access } = logIn(given, actor)
    return reportSubject(
      server,
      {
        path: "/api/v1/reports",
        headers: { ...json, ...bearer(access), ...keyOf(name) },
        body: reportBody(name)
      },
      actor
    )
  })

const anonymousReport: Prepare = ({ name, server }) =>
  Effect.sync(() =>
    reportSubject(
      server,
      {
        path: "/api/v1/reports",
        headers: { ...json, ...keyOf(name) },
        body: reportBody(name)
      },
      null
    )
  )

const reportSubject = (server: Server, request: InMemoryRequest, reporter: string | null): Subject => ({
  request,
  state: Effect.map(server.store.deliveries.counts.pipe(Effect.orDie), (counts) => {
    const stored = counts.reduce((sum, { count }) => sum + count, 0)
    return stored === 0 ? "not stored" : stored === 1 ? "stored" : `stored ${stored} times`
  }),
  problems: (answer) =>
    Effect.map(server.store.deliveries.counts.pipe(Effect.orDie), (counts) => [
      ...(counts.reduce((sum, { count }) => sum + count, 0) === 1 ? [] : ["not stored exactly once"]),
      ...(bodyOf(answer).reporter === reporter ? [] : ["the reporter is not named"])
    ])
})

const telemetry: Prepare = ({ name, server }) =>
  Effect.sync(() => {
    const id = `00000000-0000-4000-8000-${name.padStart(12, "0")}`
    const waiting = Effect.map(Effect.orDie(server.store.spool.counts), (counts) =>
      counts.reduce((sum, row) => sum + row.waiting, 0)
    )
    return {
      request: {
        path: "/api/v1/telemetry",
        headers: json,
        body: JSON.stringify({ table: "musicclidaemon", events: [{ id, type: "playback.started" }] })
      },
      state: Effect.map(waiting, (count) => `waiting ${count}`),
      problems: () => Effect.map(waiting, (count) => (count === 1 ? [] : [`${count} records wait`]))
    }
  })

const webhook: Prepare = ({ world }) =>
  Effect.sync(() => {
    const { controls } = world.iam
    const { body, headers } = controls.buildWebhook(production, {
      appId: "music",
      eventType: "organization.updated.v1",
      aggregate: { type: "organization", id: world.seeded.production.organizations.acme, version: 2 },
      organizationId: world.seeded.production.organizations.acme,
      data: {}
    })
    return {
      request: { path: "/webhook/", headers: { ...json, ...headers }, body: Buffer.from(body) },
      state: noState,
      problems: noProblems
    }
  })

const get =
  (path: string): Prepare =>
  () =>
    Effect.succeed({ request: { path }, state: noState, problems: noProblems })

export const operations = {
  login,
  refresh,
  logout,
  me,
  "me in a testing environment": meInTesting,
  "iam in a testing environment": plane,
  subscription,
  ting,
  "report with a bearer": report,
  "report without a bearer": anonymousReport,
  telemetry,
  webhook,
  iam: get("/api/v1/iam"),
  version: get("/api/v1/version"),
  healthz: get("/healthz"),
  readyz: get("/readyz")
} as const satisfies Readonly<Record<string, Prepare>>

export type OperationName = keyof typeof operations
