/**
 * Every route with every kind of credential in the wrong place, plane or hands: what is answered, and that nothing happened. A route
 * without a row and a kind without a cell do not compile or fail the attack.
 */
import { routes } from "../../../src/http/middleware/Routes.ts"
import type { ApartAttack } from "./ApartAttack.ts"
import {
  type Account,
  bearing,
  type Bench,
  effectsOf,
  type HeaderLines,
  logIn,
  newKey,
  selecting,
  type Sent,
  send,
  verdictOf,
  withBench
} from "./Bench.ts"

/** Routes that read the same credentials in the same way. */
const rows = {
  "GET /healthz": "open",
  "GET /readyz": "open",
  "GET /openapi.json": "open",
  "GET /docs": "open",
  "GET /": "root",
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
type Row = (typeof rows)[keyof typeof rows]

/** Codes of the cells. `ok` is the success of the call; `none` a success without any effect. */
const verdicts = {
  bearer: "401 unauthenticated",
  plane: "401 testing_secret_invalid",
  slt: "401 slt_rejected",
  org: "403 forbidden",
  shape: "400 invalid_input",
  signature: "401 webhook_signature_invalid",
  missing: "404 not_found"
} as const
type Cell = keyof typeof verdicts | "ok" | "none"

interface Cast {
  readonly bench: Bench
  /** `si:deejay`, in production, in the environment, and in another one. */
  readonly production: Account
  readonly testing: Account
  readonly elsewhere: Account
  readonly revoked: Account
  /** Of the application `ting`, which IAM vouches for to that one only. */
  readonly foreign: Account
  readonly deletedSecret: string
  readonly rotatedSecret: string
}

type Cells = readonly [
  plane: Cell,
  telemetry: Cell,
  bearer: Cell,
  report: Cell,
  login: Cell,
  refresh: Cell,
  logout: Cell
]
const columns: ReadonlyArray<Row> = ["plane", "telemetry", "bearer", "report", "login", "refresh", "logout"]

/** A production token under a selector that cannot be resolved, and what looks like a selector. */
const noPlane: Cells = ["plane", "plane", "plane", "plane", "plane", "plane", "plane"]
/** Calls without a bearer do not look at it; with one they refuse it. */
const noBearer: Cells = ["ok", "ok", "bearer", "bearer", "ok", "ok", "ok"]
const noOrganisation: Cells = ["ok", "ok", "shape", "shape", "ok", "ok", "ok"]
/** In a testing plane the tokens of production, in a header or a body, are nothing. */
const otherPlane: Cells = ["ok", "none", "bearer", "bearer", "slt", "bearer", "none"]

interface Kind {
  readonly headers: (cast: Cast) => HeaderLines
  readonly cells: Cells
  /** Behind the path. */
  readonly query?: (cast: Cast) => string
}

const authorization = (value: string, organisation = "acme"): HeaderLines => [
  ["Authorization", value],
  ["X-Org-ID", organisation]
]
const latin1 = (text: string): string => Buffer.from(text).toString("latin1")
const testSecret = ({ bench }: Cast): string => bench.world.seeded.environment.musicSecret

const bearers: Readonly<Record<string, (cast: Cast) => string>> = {
  "a refresh token": ({ production }) => production.refreshToken,
  "a short-lived token": ({ bench }) =>
    bench.world.iam.controls.mintSlt("production", { appId: "music", actor: "si:lyra" }),
  "our application's secret": ({ bench }) => bench.world.seeded.production.musicSecret,
  "a testing secret": testSecret,
  "a root key": ({ bench }) => bench.world.seeded.environment.rootKey,
  "the webhook secret": ({ bench }) => bench.world.seeded.production.webhookSecret,
  "the tracker's token": ({ bench }) => bench.world.trackerToken,
  "a proof": () => `obo_${"x".repeat(43)}`,
  "a token of IAM itself": () => `cat_${"x".repeat(43)}`,
  "a token of another application": ({ foreign }) => foreign.accessToken,
  "a revoked token": ({ revoked }) => revoked.accessToken,
  "a token of a testing plane": ({ testing }) => testing.accessToken,
  "a token that was never issued": () => `oat_${"x".repeat(43)}`,
  "a token in another case": ({ production }) => `OAT_${production.accessToken.slice(4)}`,
  "a token with a further letter": ({ production }) => `${production.accessToken}x`,
  "a token without its last letter": ({ production }) => production.accessToken.slice(0, -1),
  "a token in quotes": ({ production }) => `"${production.accessToken}"`,
  "two tokens": ({ production, revoked }) => `${production.accessToken},${revoked.accessToken}`,
  nothing: () => ""
}

const selectors: Readonly<Record<string, (cast: Cast) => string>> = {
  "our application's secret": ({ bench }) => bench.world.seeded.production.musicSecret,
  "a root key": ({ bench }) => bench.world.seeded.environment.rootKey,
  "another application's testing secret": ({ bench }) => bench.world.seeded.environment.tingSecret,
  "another application's secret": ({ bench }) => bench.world.seeded.production.tingSecret,
  "a deleted environment's secret": ({ deletedSecret }) => deletedSecret,
  "a rotated secret": ({ rotatedSecret }) => rotatedSecret,
  "the id of an environment": ({ bench }) => bench.world.seeded.environment.environmentId,
  "the webhook secret": ({ bench }) => bench.world.seeded.production.webhookSecret,
  "an access token": ({ production }) => production.accessToken,
  "a secret in another case": (cast) => testSecret(cast).toUpperCase(),
  "a secret and a letter": (cast) => `${testSecret(cast)}x`,
  "a secret in quotes": (cast) => `"${testSecret(cast)}"`,
  "two secrets": (cast) => `${testSecret(cast)}, ${testSecret(cast)}`,
  "a secret in full width": (cast) => latin1(testSecret(cast).replace("a", "\uff41")),
  nothing: () => "",
  "a word": () => "production"
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

/** Kinds of credentials beside the body's own, and the verdicts of the rows. */
export const kinds: Readonly<Record<string, Kind>> = {
  "a session of its own plane": {
    headers: ({ production }) => bearing(production.accessToken),
    cells: ["ok", "ok", "ok", "ok", "ok", "ok", "ok"]
  },
  "no credential": { headers: () => [], cells: ["ok", "ok", "bearer", "ok", "ok", "ok", "ok"] },
  "a production token with a testing secret": {
    headers: (cast) => [...bearing(cast.production.accessToken), ...selecting(testSecret(cast))],
    cells: otherPlane
  },
  "a testing token without its secret": {
    headers: ({ testing }) => bearing(testing.accessToken),
    cells: noBearer
  },
  "a testing token with another environment's secret": {
    headers: ({ bench, testing }) => [
      ...bearing(testing.accessToken),
      ...selecting(bench.otherEnvironment.musicSecret)
    ],
    cells: otherPlane
  },
  "another environment's token with a testing secret": {
    headers: (cast) => [...bearing(cast.elsewhere.accessToken), ...selecting(testSecret(cast))],
    cells: otherPlane
  },
  "a testing secret twice": {
    headers: (cast) => [
      ...selecting(testSecret(cast)),
      ...selecting(testSecret(cast)),
      ...bearing(cast.production.accessToken)
    ],
    cells: noPlane
  },
  ...Object.fromEntries(
    Object.entries(bearers).map(([name, token]): readonly [string, Kind] => [
      `as a bearer: ${name}`,
      { headers: (cast) => authorization(`Bearer ${token(cast)}`), cells: noBearer }
    ])
  ),
  ...Object.fromEntries(
    Object.entries(selectors).map(([name, value]): readonly [string, Kind] => [
      `as a selector: ${name}`,
      {
        headers: (cast) => [...bearing(cast.production.accessToken), ...selecting(value(cast))],
        cells: noPlane
      }
    ])
  ),
  ...Object.fromEntries(
    Object.entries(organisations).map(([name, handle]): readonly [string, Kind] => [
      `the organisation ${name}`,
      { headers: ({ production }) => bearing(production.accessToken, handle), cells: noOrganisation }
    ])
  ),
  "an organisation of another actor": {
    headers: ({ production }) => bearing(production.accessToken, "zenith"),
    cells: ["ok", "ok", "org", "org", "ok", "ok", "ok"]
  },
  "an organisation that does not exist": {
    headers: ({ production }) => bearing(production.accessToken, "nowhere"),
    cells: ["ok", "ok", "org", "org", "ok", "ok", "ok"]
  },
  "no organisation": {
    headers: ({ production }) => [["Authorization", `Bearer ${production.accessToken}`]],
    cells: noOrganisation
  },
  "two organisations": {
    headers: ({ production }) => [...bearing(production.accessToken), ["X-Org-ID", "zenith"]],
    cells: noOrganisation
  },
  "two bearers": {
    headers: ({ production, revoked }) => [
      ...bearing(production.accessToken),
      ["Authorization", `Bearer ${revoked.accessToken}`]
    ],
    cells: noBearer
  },
  "the scheme in lower case": {
    headers: ({ production }) => authorization(`bearer ${production.accessToken}`),
    cells: noBearer
  },
  "two spaces behind the scheme": {
    headers: ({ production }) => authorization(`Bearer  ${production.accessToken}`),
    cells: noBearer
  },
  "no scheme": {
    headers: ({ production }) => authorization(production.accessToken),
    cells: noBearer
  },
  "the application's Basic credentials": {
    headers: ({ bench }) =>
      authorization(
        `Basic ${Buffer.from(`music:${bench.world.seeded.production.musicSecret}`).toString("base64")}`
      ),
    cells: noBearer
  },
  "a token in other headers, a cookie and the query": {
    headers: ({ production }) => [
      ["Proxy-Authorization", `Bearer ${production.accessToken}`],
      ["X-Authorization", `Bearer ${production.accessToken}`],
      ["X-Access-Token", production.accessToken],
      ["X-Forwarded-User", "si:deejay"],
      ["X-Actor", "si:deejay"],
      ["Cookie", `access_token=${production.accessToken}`],
      ["X-HTTP-Method-Override", "DELETE"],
      ["X-Org-ID", "acme"]
    ],
    query: ({ production }) => `?access_token=${production.accessToken}&org_id=acme`,
    cells: ["ok", "ok", "bearer", "ok", "ok", "ok", "ok"]
  },
  "another plane selected by other names": {
    headers: (cast) => [
      ...bearing(cast.testing.accessToken),
      ["X-Testing-Application", `Basic ${Buffer.from(`music:${testSecret(cast)}`).toString("base64")}`],
      ["IAM_TEST_APP_SECRET", testSecret(cast)],
      ["X-Testing-Environment", testSecret(cast)]
    ],
    cells: noBearer
  }
}

/** The call of a route with its own, valid body in production. */
const requestTo = async (route: string, cast: Cast): Promise<Sent> => {
  const [method = "", path = ""] = route.split(" ")
  const post = (body: unknown, headers: HeaderLines = []): Sent => ({
    method,
    path,
    headers,
    body: JSON.stringify(body)
  })
  const key: HeaderLines = [["Idempotency-Key", newKey()]]
  switch (rows[route as keyof typeof rows]) {
    case "login":
      return post(
        { slt: cast.bench.world.iam.controls.mintSlt("production", { appId: "music", actor: "c:ana" }) },
        key
      )
    case "refresh":
      return post({ refresh_token: (await spare(cast.bench)).refreshToken }, key)
    case "logout":
      return post({ token: (await spare(cast.bench)).refreshToken }, key)
    case "report":
      return post({ message: "The player stops after a seek." }, key)
    case "telemetry":
      return post({ table: "musicclidaemon", events: [{ a: 1 }] })
    case "webhook":
      return post({})
    default:
      return path.endsWith("/tings")
        ? post({ type: "music.trigger.fired", key: `si:deejay/${newKey()}`, data: {} })
        : path.endsWith("/subscription")
          ? post({})
          : { method, path }
  }
}

/** A session whose tokens an attempt may send; kept until one takes effect. */
let unused: { readonly bench: Bench; readonly account: Account } | undefined
const spare = async (bench: Bench): Promise<Account> => {
  const family =
    unused && bench.world.iam.controls.plane("production").refreshTokens.get(unused.account.refreshToken)
  if (unused?.bench !== bench || family?.consumed !== false || family.family.status !== "active")
    unused = { bench, account: await logIn(bench, "c:ana") }
  return unused.account
}

const cellOf = (row: Row, { cells }: Kind): Cell => {
  if (row === "webhook") return "signature"
  if (row === "root") return "missing"
  return cells[columns.indexOf(row)] ?? "ok"
}

/** Names of credentials that an answer must not have. */
const secretsOf = ({
  bench,
  elsewhere,
  foreign,
  production,
  revoked,
  testing
}: Cast): ReadonlyArray<string> => [
  bench.world.seeded.production.musicSecret,
  bench.world.seeded.production.webhookSecret,
  bench.world.seeded.environment.musicSecret,
  bench.world.seeded.environment.rootKey,
  bench.world.trackerToken,
  ...[elsewhere, foreign, production, revoked, testing].flatMap(({ accessToken, refreshToken }) => [
    accessToken,
    refreshToken
  ])
]

interface Attempt {
  readonly name: string
  readonly cell: Cell
  readonly success: string
  readonly request: () => Promise<Sent>
}

const sendOne = async (
  cast: Cast,
  { cell, name, request, success }: Attempt
): Promise<ReadonlyArray<string>> => {
  const answer = await send(cast.bench.first, await request())
  const said = verdictOf(answer)
  const wanted = cell === "ok" || cell === "none" ? success : verdicts[cell]
  const shown = cell === "ok" ? [] : secretsOf(cast).filter((secret) => answer.body.includes(secret))
  return [
    ...(said === wanted ? [] : [`${name}: ${said} instead of ${wanted}`]),
    ...shown.map((secret) => `${name}: the answer has ${secret.slice(0, 8)}…`)
  ]
}

/** Attempts at a time where none of them has an effect. */
const together = 8

/** Sends the attempts and compares what is left: of those with a success in production only, of the others nothing. */
const sendAll = async (cast: Cast, attempts: ReadonlyArray<Attempt>): Promise<ReadonlyArray<string>> => {
  const { bench } = cast
  const testingPlane = bench.world.seeded.environment.environmentId
  const broken: Array<string> = []
  const watch = async (
    some: ReadonlyArray<Attempt>,
    planes: ReadonlyArray<string>,
    play: () => Promise<unknown>
  ) => {
    // A login of the attempts' own would be an effect.
    await spare(bench)
    const before = planes.map((plane) => effectsOf(bench, plane))
    await play()
    for (const [at, plane] of planes.entries())
      if (effectsOf(bench, plane) !== before[at])
        broken.push(`one of these had an effect in ${plane}: ${some.map(({ name }) => name).join("; ")}`)
  }
  const refused = attempts.filter(({ cell }) => cell !== "ok")
  for (let at = 0; at < refused.length; at += together) {
    const some = refused.slice(at, at + together)
    await watch(some, ["production", testingPlane], async () => {
      for (const found of await Promise.all(some.map((one) => sendOne(cast, one)))) broken.push(...found)
    })
  }
  const served = attempts.filter(({ cell }) => cell === "ok")
  await watch(served, [testingPlane], async () => {
    for (const one of served) broken.push(...(await sendOne(cast, one)))
  })
  return broken
}

const successOf = (row: Row): string => (row === "telemetry" || row === "logout" ? "204" : "200")

/** Credentials of others in the bodies. */
const bodies = (
  cast: Cast
): ReadonlyArray<readonly [name: string, request: Sent, cell: Cell, success?: string]> => {
  const { bench, foreign, production, testing } = cast
  const { environment } = bench.world.seeded
  const keyed = (path: string, body: unknown, headers: HeaderLines = []): Sent => ({
    path: `/api/v1/${path}`,
    headers: [["Idempotency-Key", newKey()], ...headers],
    body: JSON.stringify(body)
  })
  const signed = (path: string, body: unknown): Sent => ({
    path: `/api/v1/${path}`,
    headers: bearing(production.accessToken),
    body: JSON.stringify(body)
  })
  const slt = (appId: string) => bench.world.iam.controls.mintSlt("production", { appId, actor: "c:ana" })
  const ting = (key: string) => signed("tings", { type: "music.trigger.fired", key, data: {} })
  const inTesting = selecting(environment.musicSecret)
  return [
    ["login with another application's token", keyed("auth/login", { slt: slt("ting") }), "slt"],
    ["login with a public id in production", keyed("auth/login", { slt: "si:deejay" }), "slt"],
    [
      "login with a production token in a testing plane",
      keyed("auth/login", { slt: slt("music") }, inTesting),
      "slt"
    ],
    ["login with an access token", keyed("auth/login", { slt: production.accessToken }), "slt"],
    ["login with a refresh token", keyed("auth/login", { slt: production.refreshToken }), "slt"],
    ["login with a token and a space", keyed("auth/login", { slt: `${slt("music")} ` }), "shape"],
    [
      "login with two credentials",
      keyed("auth/login", { slt: slt("music"), refresh_token: production.refreshToken }),
      "shape"
    ],
    ["login with form syntax", keyed("auth/login", { slt: `x&slt=${slt("music")}` }), "slt"],
    [
      "refresh with an access token",
      keyed("auth/refresh", { refresh_token: production.accessToken }),
      "bearer"
    ],
    [
      "refresh with a testing token",
      keyed("auth/refresh", { refresh_token: testing.refreshToken }),
      "bearer"
    ],
    [
      "refresh with a production token in a testing plane",
      keyed("auth/refresh", { refresh_token: production.refreshToken }, inTesting),
      "bearer"
    ],
    [
      "refresh with another application's token",
      keyed("auth/refresh", { refresh_token: foreign.refreshToken }),
      "bearer"
    ],
    ["refresh with a short-lived token", keyed("auth/refresh", { refresh_token: slt("music") }), "bearer"],
    [
      "refresh with form syntax",
      keyed("auth/refresh", {
        refresh_token: `ort_${"x".repeat(43)}&refresh_token=${production.refreshToken}`
      }),
      "bearer"
    ],
    ["logout with a testing token", keyed("auth/logout", { token: testing.refreshToken }), "none", "204"],
    [
      "logout with a production token in a testing plane",
      keyed("auth/logout", { token: production.refreshToken }, inTesting),
      "none",
      "204"
    ],
    [
      "logout with another application's token",
      keyed("auth/logout", { token: foreign.refreshToken }),
      "none",
      "204"
    ],
    [
      "logout with another application's access token",
      keyed("auth/logout", { token: foreign.accessToken }),
      "none",
      "204"
    ],
    [
      "logout with our secret",
      keyed("auth/logout", { token: bench.world.seeded.production.musicSecret }),
      "none",
      "204"
    ],
    [
      "logout with form syntax",
      keyed("auth/logout", { token: `ort_${"x".repeat(43)}&token=${production.refreshToken}` }),
      "none",
      "204"
    ],
    ...[
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
    ].map((key) => [`a ting with the key ${JSON.stringify(key)}`, ting(key), "shape"] as const),
    [
      "a ting of another application",
      signed("tings", { type: "ting.message", key: "si:deejay/1", data: {} }),
      "missing"
    ],
    [
      "a ting for another actor",
      signed("tings", { type: "music.trigger.fired", key: "si:deejay/1", data: {}, for: "si:lyra" }),
      "shape"
    ],
    [
      "a ting in another organisation",
      signed("tings", { type: "music.trigger.fired", key: "si:deejay/1", data: {}, org_id: "zenith" }),
      "shape"
    ],
    ["a subscription for another actor", signed("ting/subscription", { for: "si:lyra" }), "shape"],
    ["a subscription of another application", signed("ting/subscription", { app_id: "ting" }), "shape"],
    [
      "a report in another's name",
      keyed("reports", { message: "The player stops after a seek.", reporter: "si:lyra" }),
      "shape"
    ],
    [
      "a report in another plane",
      keyed("reports", { message: "The player stops after a seek.", plane: "production" }),
      "shape"
    ],
    [
      "events for the service's own table",
      { path: "/api/v1/telemetry", body: JSON.stringify({ table: "musicbackend", events: [{}] }) },
      "shape"
    ],
    [
      "events for a table by its key",
      {
        path: "/api/v1/telemetry",
        body: JSON.stringify({ table: `table-musicclidaemon-${"0".repeat(32)}`, events: [{}] })
      },
      "shape"
    ]
  ]
}

/** A token of the application `ting`, which the service would have to obtain from IAM itself. */
const foreignAccount = async ({ world }: Bench): Promise<Account> => {
  const slt = world.iam.controls.mintSlt("production", { appId: "ting", actor: "si:deejay" })
  const response = await fetch(`${world.iam.url}/api/v1/app-auth/tokens`, {
    method: "POST",
    headers: {
      authorization: `Basic ${Buffer.from(`ting:${world.seeded.production.tingSecret}`).toString("base64")}`,
      "content-type": "application/x-www-form-urlencoded",
      "idempotency-key": newKey()
    },
    body: new URLSearchParams({ app_id: "ting", slt }).toString()
  })
  const { access_token, refresh_token } = JSON.parse(await response.text())
  return { publicId: "si:deejay", accessToken: access_token, refreshToken: refresh_token }
}

const castOf = async (bench: Bench): Promise<Cast> => {
  const { controls } = bench.world.iam
  const { environment } = bench.world.seeded
  const revoked = await logIn(bench)
  await send(bench.first, {
    path: "/api/v1/auth/logout",
    headers: [["Idempotency-Key", newKey()]],
    body: JSON.stringify({ token: revoked.refreshToken })
  })
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
    testing: await logIn(bench, "si:deejay", environment.musicSecret),
    elsewhere: await logIn(bench, "si:deejay", bench.otherEnvironment.musicSecret),
    revoked,
    foreign: await foreignAccount(bench),
    deletedSecret: deleted.secret,
    rotatedSecret: rotated.secret
  }
}

export const planeAttack: ApartAttack = {
  name: "credentials in the wrong place",
  play: () =>
    withBench(async (bench) => {
      const served = [...routes].flatMap(([path, { calls }]) =>
        [...calls.keys()].filter((method) => method !== "HEAD").map((method) => `${method} ${path}`)
      )
      const unlisted = [
        ...served.filter((route) => !(route in rows)),
        ...Object.keys(rows).filter((route) => !served.includes(route))
      ]
      if (unlisted.length > 0) return unlisted.map((route) => `${route} has no row, or a row and no route`)

      const cast = await castOf(bench)
      const broken: Array<string> = []
      for (const [route, row] of Object.entries(rows))
        broken.push(
          ...(await sendAll(
            cast,
            Object.entries(kinds).map(
              ([name, kind]): Attempt => ({
                name: `${route}, ${name}`,
                cell: cellOf(row, kind),
                success: successOf(row),
                request: async () => {
                  const { headers = [], path, ...request } = await requestTo(route, cast)
                  return {
                    ...request,
                    path: `${path}${kind.query?.(cast) ?? ""}`,
                    headers: [...headers, ...kind.headers(cast)]
                  }
                }
              })
            )
          ))
        )
      const ofBodies = bodies(cast).map(
        ([name, request, cell, success = "200"]): Attempt => ({
          name,
          cell,
          success,
          request: async () => request
        })
      )
      broken.push(...(await sendAll(cast, ofBodies)))

      // An expired token, and a secret that was resolved before its environment ended.
      const { environmentId } = bench.otherEnvironment
      bench.world.iam.controls.deleteEnvironment(environmentId)
      bench.clock.advance(61_000)
      const refusal = (name: string, path: string, headers: HeaderLines, cell: Cell): Attempt => ({
        name,
        cell,
        success: "200",
        request: async () => ({ path, headers })
      })
      const ended = [...bearing(cast.elsewhere.accessToken), ...selecting(bench.otherEnvironment.musicSecret)]
      broken.push(
        ...(await sendAll(cast, [
          refusal("a deleted environment", "/api/v1/iam", ended, "plane"),
          refusal("a session in a deleted environment", "/api/v1/auth/me", ended, "plane")
        ]))
      )
      bench.clock.advance(1_800_000)
      const expired = bearing(cast.production.accessToken)
      broken.push(
        ...(await sendAll(cast, [refusal("an expired token", "/api/v1/auth/me", expired, "bearer")]))
      )
      const kept = JSON.stringify([
        ...["recipients", "login_outcomes", "reports", "webhook_inbox", "known_planes", "spool"].map(
          (table) => bench.query(`SELECT * FROM ${table}`)
        ),
        bench.log
      ])
      for (const secret of bench.world.minted())
        if (kept.includes(secret)) broken.push(`the database or the log has ${secret.slice(0, 8)}…`)
      return broken
    })
}
