/**
 * Every route with every kind of credential in the wrong place, plane or hands: what is answered, and that nothing happened. A route
 * without a row fails the attack.
 */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "../../support/Process.ts"
import {
  type Account,
  bearing,
  type Bench,
  effectsOf,
  type HeaderLines,
  type IdentityAttack,
  logIn,
  newKey,
  selecting,
  type Sent,
  sltOf,
  verdictOf
} from "./Bench.ts"

/** Routes that read the same credentials in the same way, in the order of the columns below. */
const readers = ["plane", "telemetry", "bearer", "report", "login", "refresh", "logout"] as const
const routes = {
  "GET /healthz": "open",
  "GET /readyz": "open",
  "GET /openapi.json": "open",
  "GET /docs": "open",
  "GET /api/v1/version": "open",
  "GET /api/v1/iam": "plane",
  "POST /api/v1/auth/login": "login",
  "POST /api/v1/auth/refresh": "refresh",
  "POST /api/v1/auth/logout": "logout",
  "GET /api/v1/auth/me": "bearer",
  "POST /api/v1/ting/subscription": "bearer",
  "POST /api/v1/tings": "bearer",
  "POST /api/v1/reports": "report",
  "POST /api/v1/telemetry": "telemetry",
  "POST /webhook": "webhook",
  "POST /webhook/": "webhook"
} as const

/** Codes of the cells. `ok` is the success of the call; `none` a success without any effect. */
const verdicts = {
  bearer: "401 unauthenticated",
  plane: "401 testing_secret_invalid",
  slt: "401 slt_rejected",
  org: "403 forbidden",
  shape: "400 invalid_input",
  missing: "404 not_found",
  signature: "401 webhook_signature_invalid"
} as const
type Cell = keyof typeof verdicts | "ok" | "none"
/** One for each of `readers`. */
type Cells = readonly [Cell, Cell, Cell, Cell, Cell, Cell, Cell]

const served: Cells = ["ok", "ok", "ok", "ok", "ok", "ok", "ok"]
const nameless: Cells = ["ok", "ok", "bearer", "ok", "ok", "ok", "ok"]
/** A selector that cannot be resolved, and what looks like a selector. */
const noPlane: Cells = ["plane", "plane", "plane", "plane", "plane", "plane", "plane"]
/** Calls without a bearer do not look at it; with one they refuse it. */
const noBearer: Cells = ["ok", "ok", "bearer", "bearer", "ok", "ok", "ok"]
const noOrganisation: Cells = ["ok", "ok", "shape", "shape", "ok", "ok", "ok"]
const otherOrganisation: Cells = ["ok", "ok", "org", "org", "ok", "ok", "ok"]
/** In a testing plane the tokens of production, in a header or a body, are nothing. */
const otherPlane: Cells = ["ok", "none", "bearer", "bearer", "slt", "bearer", "none"]

interface Cast {
  readonly bench: Bench
  /** `si:deejay`, in production, in the environment, and in another one. */
  readonly production: Account
  readonly testing: Account
  readonly elsewhere: Account
  readonly revoked: Account
  /** Of the application `ting`, which IAM vouches for to that one only. */
  readonly foreign: Account
  readonly testSecret: string
  readonly deletedSecret: string
  readonly rotatedSecret: string
}

const bearersOf = (cast: Cast): Readonly<Record<string, string>> => {
  const { bench, foreign, production, revoked, testing } = cast
  const { environment, production: own } = bench.world.seeded
  const token = production.accessToken
  return {
    "a refresh token": `Bearer ${production.refreshToken}`,
    "a short-lived token": `Bearer ${sltOf(bench, "c:ana")}`,
    "our application's secret": `Bearer ${own.musicSecret}`,
    "a testing secret": `Bearer ${cast.testSecret}`,
    "a root key": `Bearer ${environment.rootKey}`,
    "the webhook secret": `Bearer ${own.webhookSecret}`,
    "the tracker's token": `Bearer ${bench.world.trackerToken}`,
    "a proof": `Bearer obo_${"x".repeat(43)}`,
    "a token of IAM itself": `Bearer cat_${"x".repeat(43)}`,
    "a token of another application": `Bearer ${foreign.accessToken}`,
    "a revoked token": `Bearer ${revoked.accessToken}`,
    "a token of a testing plane": `Bearer ${testing.accessToken}`,
    "a token that was never issued": `Bearer oat_${"x".repeat(43)}`,
    "a token in another case": `Bearer OAT_${token.slice(4)}`,
    "a token with a further letter": `Bearer ${token}x`,
    "a token without its last letter": `Bearer ${token.slice(0, -1)}`,
    "a token in quotes": `Bearer "${token}"`,
    "two tokens": `Bearer ${token},${revoked.accessToken}`,
    nothing: "Bearer ",
    "the scheme in lower case": `bearer ${token}`,
    "two spaces behind the scheme": `Bearer  ${token}`,
    "no scheme": token,
    "the application's Basic credentials": `Basic ${Buffer.from(`music:${own.musicSecret}`).toString("base64")}`
  }
}

const latin1 = (text: string): string => Buffer.from(text).toString("latin1")

const selectorsOf = (cast: Cast): Readonly<Record<string, string>> => {
  const { environment, production: own } = cast.bench.world.seeded
  const { testSecret } = cast
  return {
    "our application's secret": own.musicSecret,
    "a root key": environment.rootKey,
    "another application's testing secret": environment.tingSecret,
    "another application's secret": own.tingSecret,
    "a deleted environment's secret": cast.deletedSecret,
    "a rotated secret": cast.rotatedSecret,
    "the id of an environment": environment.environmentId,
    "the webhook secret": own.webhookSecret,
    "an access token": cast.production.accessToken,
    "a secret in another case": testSecret.toUpperCase(),
    "a secret and a letter": `${testSecret}x`,
    "a secret in quotes": `"${testSecret}"`,
    "two secrets": `${testSecret}, ${testSecret}`,
    "a secret in full width": latin1(testSecret.replace("a", "\uff41")),
    nothing: "",
    "a word": "production"
  }
}

const organisations: Readonly<Record<string, string>> = {
  "in upper case": "ACME",
  "with a Cyrillic letter": latin1("\u0430cme"),
  "in full width": latin1("\uff41cme"),
  "with an invisible character": latin1("ac\u200bme"),
  "with a no-break space": "acme\xa0",
  "in percent codes": "%61cme",
  "with another one": "acme,zenith",
  "as a membership": "si:deejay[acme]",
  "with a path": "acme/../zenith",
  "with a joker": "*",
  "of nothing": ""
}

type Kind = readonly [name: string, cells: Cells, headers: HeaderLines, query?: string]

/** Kinds of credentials beside the body's own. */
const kindsOf = (cast: Cast): ReadonlyArray<Kind> => {
  const { bench, elsewhere, production, revoked, testSecret, testing } = cast
  const token = production.accessToken
  const own = bearing(token)
  const inTesting = selecting(testSecret)
  const inOther = selecting(bench.otherEnvironment.musicSecret)
  return [
    ["a session of its own plane", served, own],
    ["no credential", nameless, []],
    ["a production token with a testing secret", otherPlane, [...own, ...inTesting]],
    ["a testing token without its secret", noBearer, bearing(testing.accessToken)],
    ["a testing token with another's secret", otherPlane, [...bearing(testing.accessToken), ...inOther]],
    ["another's token with a testing secret", otherPlane, [...bearing(elsewhere.accessToken), ...inTesting]],
    ["a testing secret twice", noPlane, [...inTesting, ...inTesting, ...own]],
    ["an organisation of another actor", otherOrganisation, bearing(token, "zenith")],
    ["an organisation that does not exist", otherOrganisation, bearing(token, "nowhere")],
    ["no organisation", noOrganisation, own.slice(0, 1)],
    ["two organisations", noOrganisation, [...own, ["X-Org-ID", "zenith"]]],
    ["two bearers", noBearer, [...own, ["Authorization", `Bearer ${revoked.accessToken}`]]],
    [
      "a token in other headers, a cookie and the query",
      nameless,
      [
        ...["Proxy-Authorization", "X-Authorization"].map((name) => [name, `Bearer ${token}`] as const),
        ["X-Access-Token", token],
        ["X-Forwarded-User", "si:deejay"],
        ["X-Actor", "si:deejay"],
        ["Cookie", `access_token=${token}`],
        ["X-HTTP-Method-Override", "DELETE"],
        ["X-Org-ID", "acme"]
      ],
      `?access_token=${token}&org_id=acme`
    ],
    [
      "another plane selected by other names",
      noBearer,
      [
        ...bearing(testing.accessToken),
        ["X-Testing-Application", `Basic ${Buffer.from(`music:${testSecret}`).toString("base64")}`],
        ["IAM_TEST_APP_SECRET", testSecret],
        ["X-Testing-Environment", testSecret]
      ]
    ],
    ...Object.entries(bearersOf(cast)).map(
      ([name, value]): Kind => [
        `as a bearer: ${name}`,
        noBearer,
        [
          ["Authorization", value],
          ["X-Org-ID", "acme"]
        ]
      ]
    ),
    ...Object.entries(selectorsOf(cast)).map(
      ([name, value]): Kind => [`as a selector: ${name}`, noPlane, [...own, ...selecting(value)]]
    ),
    ...Object.entries(organisations).map(
      ([name, handle]): Kind => [`the organisation ${name}`, noOrganisation, bearing(token, handle)]
    )
  ]
}

/** A session whose tokens an attempt may send; kept until one takes effect. */
const makeSpare = (bench: Bench) => {
  let unused: Account | undefined
  return async (): Promise<Account> => {
    const { refreshTokens } = bench.world.iam.controls.plane("production")
    const known = refreshTokens.get(unused?.refreshToken ?? "")
    if (unused === undefined || known?.consumed !== false || known.family.status !== "active")
      unused = await logIn(bench, "c:ana")
    return unused
  }
}

/** The call of a route with its own, valid body in production. */
const requestTo = async (route: string, bench: Bench, spare: () => Promise<Account>): Promise<Sent> => {
  const [method = "", path = ""] = route.split(" ")
  const { refreshToken } = await spare()
  const bodies: Readonly<Record<string, unknown>> = {
    "/api/v1/auth/login": { slt: sltOf(bench, "c:ana") },
    "/api/v1/auth/refresh": { refresh_token: refreshToken },
    "/api/v1/auth/logout": { token: refreshToken },
    "/api/v1/ting/subscription": {},
    "/api/v1/tings": { type: "music.trigger.fired", key: `si:deejay/${newKey()[0]?.[1]}`, data: {} },
    "/api/v1/reports": { message: "The player stops after a seek." },
    "/api/v1/telemetry": { table: "musicclidaemon", events: [{ a: 1 }] }
  }
  return method === "GET"
    ? { method, path }
    : { method, path, headers: newKey(), body: JSON.stringify(bodies[path] ?? {}) }
}

/** Credentials of others in the bodies, each in a request of `si:deejay`. */
const bodiesOf = (cast: Cast): ReadonlyArray<readonly [name: string, request: Sent, cell: Cell]> => {
  const { bench, foreign, production, testing } = cast
  const secret = bench.world.seeded.production.musicSecret
  const slt = (appId = "music") => sltOf(bench, "c:ana", appId)
  const inTesting = selecting(cast.testSecret)
  const invented = `ort_${"x".repeat(43)}`
  const sent = (path: string, body: unknown, headers: HeaderLines): Sent => ({
    path: `/api/v1/${path}`,
    headers: [...newKey(), ...headers],
    body: JSON.stringify(body)
  })
  const own = bearing(production.accessToken)
  const keys = [
    "si:lyra/1",
    "SI:deejay/1",
    "si:deejay",
    "si:deejay2/1",
    "si:deejay\u200b/1",
    "\uff53i:deejay/1",
    " si:deejay/1",
    "/si:deejay/1",
    "si:lyra/si:deejay/1",
    "c:deejay/1"
  ]
  const ting = { type: "music.trigger.fired", key: "si:deejay/1", data: {} }
  const report = { message: "The player stops after a seek." }
  type Case = readonly [what: string, body: unknown, cell: Cell, headers?: HeaderLines]
  const calls: Readonly<Record<string, ReadonlyArray<Case>>> = {
    "auth/login": [
      ["another application's token", { slt: slt("ting") }, "slt"],
      ["a public id in production", { slt: "si:deejay" }, "slt"],
      ["a production token in a testing plane", { slt: slt() }, "slt", inTesting],
      ["an access token", { slt: production.accessToken }, "slt"],
      ["a refresh token", { slt: production.refreshToken }, "slt"],
      ["a token and a space", { slt: `${slt()} ` }, "shape"],
      ["two credentials", { slt: slt(), refresh_token: production.refreshToken }, "shape"],
      ["form syntax", { slt: `x&slt=${slt()}` }, "slt"]
    ],
    "auth/refresh": [
      ["an access token", { refresh_token: production.accessToken }, "bearer"],
      ["a testing token", { refresh_token: testing.refreshToken }, "bearer"],
      ["a token in a testing plane", { refresh_token: production.refreshToken }, "bearer", inTesting],
      ["another application's token", { refresh_token: foreign.refreshToken }, "bearer"],
      ["a short-lived token", { refresh_token: slt() }, "bearer"],
      ["form syntax", { refresh_token: `${invented}&refresh_token=${production.refreshToken}` }, "bearer"]
    ],
    "auth/logout": [
      ["a testing token", { token: testing.refreshToken }, "none"],
      ["a production token in a testing plane", { token: production.refreshToken }, "none", inTesting],
      ["another application's token", { token: foreign.refreshToken }, "none"],
      ["another application's access token", { token: foreign.accessToken }, "none"],
      ["our secret", { token: secret }, "none"],
      ["form syntax", { token: `${invented}&token=${production.refreshToken}` }, "none"]
    ],
    tings: [
      ...keys.map((key): Case => [`the key ${JSON.stringify(key)}`, { ...ting, key }, "shape", own]),
      ["a type of another application", { ...ting, type: "ting.message" }, "missing", own],
      ["another actor", { ...ting, for: "si:lyra" }, "shape", own],
      ["another organisation", { ...ting, org_id: "zenith" }, "shape", own]
    ],
    "ting/subscription": [
      ["another actor", { for: "si:lyra" }, "shape", own],
      ["another application", { app_id: "ting" }, "shape", own]
    ],
    reports: [
      ["another's name", { ...report, reporter: "si:lyra" }, "shape"],
      ["another plane", { ...report, plane: "production" }, "shape"]
    ],
    telemetry: [
      ["the service's own table", { table: "musicbackend", events: [{}] }, "shape"],
      ["a table's key", { table: `table-musicclidaemon-${"0".repeat(32)}`, events: [{}] }, "shape"]
    ]
  }
  return Object.entries(calls).flatMap(([path, cases]) =>
    cases.map(
      ([what, body, cell, headers = []]) =>
        [`POST /api/v1/${path} with ${what}`, sent(path, body, headers), cell] as const
    )
  )
}

/** A token of the application `ting`, which the service would have to obtain from IAM itself. */
const foreignAccount = async (bench: Bench): Promise<Account> => {
  const { seeded, iam } = bench.world
  const basic = Buffer.from(`ting:${seeded.production.tingSecret}`).toString("base64")
  const response = await fetch(`${iam.url}/api/v1/app-auth/tokens`, {
    method: "POST",
    headers: { authorization: `Basic ${basic}`, "idempotency-key": "the-key-of-ting-0123456789" },
    body: new URLSearchParams({ app_id: "ting", slt: sltOf(bench, "si:deejay", "ting") })
  })
  const { access_token, refresh_token } = JSON.parse(await response.text())
  return { accessToken: access_token, refreshToken: refresh_token }
}

const castOf = async (bench: Bench): Promise<Cast> => {
  const { controls } = bench.world.iam
  const testSecret = bench.world.seeded.environment.musicSecret
  const revoked = await logIn(bench)
  const body = JSON.stringify({ token: revoked.refreshToken })
  await bench.first({ path: "/api/v1/auth/logout", headers: newKey(), body })
  const addEnvironment = (name: string) => {
    const { environmentId } = controls.addEnvironment({ orgId: "acme", name })
    return { environmentId, secret: controls.importApp(environmentId, "music").secret }
  }
  const deleted = addEnvironment("deleted")
  const rotated = addEnvironment("rotated")
  controls.deleteEnvironment(deleted.environmentId)
  controls.rotateSecret(rotated.environmentId, "music")
  return {
    bench,
    production: await logIn(bench),
    testing: await logIn(bench, "si:deejay", testSecret),
    elsewhere: await logIn(bench, "si:deejay", bench.otherEnvironment.musicSecret),
    revoked,
    foreign: await foreignAccount(bench),
    testSecret,
    deletedSecret: deleted.secret,
    rotatedSecret: rotated.secret
  }
}

/** Sends a request and compares the answer and what is left: of a success in production only, else nothing. */
const attempt = async (
  { bench, testing, ...cast }: Cast,
  name: string,
  cell: Cell,
  request: Sent
): Promise<ReadonlyArray<string>> => {
  const { environmentId } = bench.world.seeded.environment
  const planes = cell === "ok" ? [environmentId] : ["production", environmentId]
  const before = planes.map((plane) => effectsOf(bench, plane))
  const answer = await bench.first(request)
  const said = verdictOf(answer)
  const success = /logout|telemetry/.test(request.path) ? "204" : "200"
  const wanted = cell === "ok" || cell === "none" ? success : verdicts[cell]
  const secrets = [...bench.world.minted(), cast.foreign.accessToken]
  return [
    ...(said === wanted ? [] : [`${name}: ${said} instead of ${wanted}`]),
    ...planes.flatMap((plane, at) =>
      effectsOf(bench, plane) === before[at] ? [] : [`${name}: an effect in ${plane}`]
    ),
    ...(cell !== "ok" && secrets.some((secret) => answer.text.includes(secret))
      ? [`${name}: the answer has a credential`]
      : [])
  ]
}

/** Compares the routes with the contract: a further call needs a row. */
const unlisted = (): ReadonlyArray<string> => {
  const { paths }: { readonly paths: Readonly<Record<string, object>> } = JSON.parse(
    readFileSync(join(root, "docs/openapi.json"), "utf8")
  )
  return Object.entries(paths)
    .flatMap(([path, calls]) => Object.keys(calls).map((method) => `${method.toUpperCase()} ${path}`))
    .filter((route) => /^(?:GET|POST|PUT|PATCH|DELETE) /.test(route) && !(route in routes))
    .map((route) => `${route} has no row`)
}

export const planeAttack: IdentityAttack = {
  name: "credentials in the wrong place",
  play: async (bench) => {
    const cast = await castOf(bench)
    const spare = makeSpare(bench)
    const broken = [...unlisted()]
    for (const [route, reader] of Object.entries(routes))
      for (const [name, cells, headers, query = ""] of kindsOf(cast)) {
        const { path, ...request } = await requestTo(route, bench, spare)
        const column = readers.findIndex((one) => one === reader)
        const cell = reader === "webhook" ? "signature" : (cells[column] ?? "ok")
        broken.push(
          ...(await attempt(cast, `${route}, ${name}`, cell, {
            ...request,
            path: `${path}${query}`,
            headers: [...(request.headers ?? []), ...headers]
          }))
        )
      }
    for (const [name, request, cell] of bodiesOf(cast))
      broken.push(...(await attempt(cast, name, cell, request)))

    // A secret that was resolved before its environment ended, and an expired token.
    const later = async (name: string, path: string, cell: Cell, headers: HeaderLines) =>
      broken.push(...(await attempt(cast, name, cell, { path, headers })))
    bench.world.iam.controls.deleteEnvironment(bench.otherEnvironment.environmentId)
    bench.clock.advance(61_000)
    const ended = [...bearing(cast.elsewhere.accessToken), ...selecting(bench.otherEnvironment.musicSecret)]
    await later("a deleted environment", "/api/v1/iam", "plane", ended)
    await later("a session in a deleted environment", "/api/v1/auth/me", "plane", ended)
    bench.clock.advance(1_800_000)
    await later("an expired token", "/api/v1/auth/me", "bearer", bearing(cast.production.accessToken))
    return broken
  }
}
