/**
 * Deliveries that IAM did not sign, or that it signed for another time, plane or reader. Each case says what is answered, and which
 * planes take the event: there it is in the inbox, and the person it removes is no recipient any more.
 */
import { signWebhook } from "../../../sandbox/upstreams/iam/WebhookSignature.ts"
import { randomUUID } from "node:crypto"
import type { ApartAttack } from "./ApartAttack.ts"
import {
  type Bench,
  type HeaderLines,
  logIn,
  previousKeyVersion,
  previousSecret,
  type Sent,
  send,
  verdictOf,
  withBench
} from "./Bench.ts"

type Json = Readonly<Record<string, unknown>>

interface Signing {
  readonly body: string | Buffer
  readonly eventId: string
  /** Seconds. */
  readonly timestamp?: number | string
  readonly keyVersion?: number | string
  readonly secret?: string
  /** Replaces the signature over these bytes. */
  readonly signature?: string
}

/** What a case is made of. */
interface Kit {
  readonly bench: Bench
  /** Seconds, of the service's clock. */
  readonly now: number
  /** The event that removes `si:lyra` from acme in a plane, as IAM sends it, with changes of its top level. */
  readonly event: (plane: string, change?: Json) => Json
  /** In the testing envelope of an environment. */
  readonly testing: (environment: { environmentId: string; rootKey: string }, change?: Json) => Json
  readonly headers: (signing: Signing) => HeaderLines
}

interface Case {
  readonly name: string
  readonly make: (kit: Kit) => Sent
  readonly verdict: string
  /** Planes that take the event; none by default. */
  readonly takes?: ReadonlyArray<"production" | "testing">
  /** The event is stored, but ends no registration. */
  readonly inert?: true
}

const production = "production"
const signature = "401 webhook_signature_invalid"
const mismatch = "403 plane_mismatch"
const idOf = (event: Json): string => {
  const test = event.test
  const metadata = typeof test === "object" && test !== null && "metadata" in test ? test.metadata : event
  return String((metadata as Json).event_id)
}

/** A well-signed request with this event. */
const signed = (kit: Kit, event: Json, change: Partial<Signing> = {}, path = "/webhook/"): Sent => {
  const body = change.body ?? JSON.stringify(event)
  return { path, headers: kit.headers({ eventId: idOf(event), ...change, body }), body }
}

const renamed = (headers: HeaderLines, name: string, change: (value: string) => HeaderLines): HeaderLines =>
  headers.flatMap((line) => (line[0] === name ? change(line[1]) : [line]))

const names = {
  eventId: "X-Silicon-IAM-Event-ID",
  timestamp: "X-Silicon-IAM-Timestamp",
  keyVersion: "X-Silicon-IAM-Key-Version",
  signature: "X-Silicon-IAM-Signature"
} as const

/** A body of so many bytes. */
const padded = (event: Json, bytes: number): string => {
  const empty = JSON.stringify({ ...event, padding: "" })
  return JSON.stringify({ ...event, padding: "x".repeat(bytes - Buffer.byteLength(empty)) })
}

const atTime = (offset: number, verdict: string): Case => ({
  name: `signed ${offset} s from now`,
  make: (kit) => signed(kit, kit.event(production), { timestamp: kit.now + offset }),
  verdict,
  ...(verdict === "200" ? { takes: [production] as const } : {})
})

const withText = (
  name: string,
  change: (text: string) => string | Buffer,
  verdict: string,
  rest: Partial<Case> = {}
): Case => ({
  name: `a body with ${name}`,
  make: (kit) => {
    const event = kit.event(production)
    return signed(kit, event, { body: change(JSON.stringify(event)) })
  },
  verdict,
  ...rest
})

const headerCase = (name: string, change: (headers: HeaderLines) => HeaderLines, verdict: string): Case => ({
  name: `headers with ${name}`,
  make: (kit) => {
    const request = signed(kit, kit.event(production))
    return { ...request, headers: change(request.headers ?? []) }
  },
  verdict,
  ...(verdict === "200" ? { takes: [production] as const } : {})
})

const withTest = (name: string, test: string, verdict: string, rest: Partial<Case> = {}): Case => ({
  name: `a production event with test ${name}`,
  make: (kit) => {
    const event = kit.event(production)
    return signed(kit, event, { body: JSON.stringify(event).replace("{", `{"test":${test},`) })
  },
  verdict,
  ...rest
})

const cases: ReadonlyArray<Case> = [
  {
    name: "the untouched delivery",
    make: (kit) => signed(kit, kit.event(production)),
    verdict: "200",
    takes: [production]
  },
  {
    name: "the other spelling of the path",
    make: (kit) => signed(kit, kit.event(production), {}, "/webhook"),
    verdict: "200",
    takes: [production]
  },
  ...["/Webhook/", "/webhook//", "//webhook/", "/webhook/x", "/webhook%2F"].map(
    (path): Case => ({
      name: `the path ${path}`,
      make: (kit) => signed(kit, kit.event(production), {}, path),
      verdict: "404 not_found"
    })
  ),
  {
    name: "a query behind the path",
    make: (kit) => signed(kit, kit.event(production), {}, "/webhook/?test=1"),
    verdict: "200",
    takes: [production]
  },
  // A second of room on the side where the test's own time runs towards the bound.
  ...[-298, 0, 299].map((offset) => atTime(offset, "200")),
  ...[-301, -86_400, 302, 86_400, 10 ** 12].map((offset) => atTime(offset, signature)),
  ...["0", "-1", "1e9", "+1790331330", "99999999999999999999"].map(
    (timestamp): Case => ({
      name: `the timestamp ${timestamp}`,
      make: (kit) => signed(kit, kit.event(production), { timestamp }),
      verdict: signature
    })
  ),
  {
    name: "1 MiB",
    make: (kit) => {
      const event = kit.event(production)
      return signed(kit, event, { body: padded(event, 1_048_576) })
    },
    verdict: "200",
    takes: [production]
  },
  {
    name: "1 MiB and a byte",
    make: (kit) => {
      const event = kit.event(production)
      return signed(kit, event, { body: padded(event, 1_048_577) })
    },
    verdict: "413 payload_too_large"
  },
  {
    name: "an empty body",
    make: (kit) => signed(kit, kit.event(production), { body: "" }),
    verdict: signature
  },
  // Keys.
  {
    name: "the previous secret under its version",
    make: (kit) =>
      signed(kit, kit.event(production), { keyVersion: previousKeyVersion, secret: previousSecret }),
    verdict: "200",
    takes: [production]
  },
  {
    name: "the previous secret under the current version",
    make: (kit) => signed(kit, kit.event(production), { secret: previousSecret }),
    verdict: signature
  },
  {
    name: "the current secret under the previous version",
    make: (kit) => signed(kit, kit.event(production), { keyVersion: previousKeyVersion }),
    verdict: signature
  },
  ...["2", "0", "01", "1.0", "constructor", "__proto__"].map(
    (keyVersion): Case => ({
      name: `the key version ${keyVersion}`,
      make: (kit) => signed(kit, kit.event(production), { keyVersion }),
      verdict: signature
    })
  ),
  ...(
    [
      ["the application's secret", ({ bench }: Kit) => bench.world.seeded.production.musicSecret],
      ["a testing secret", ({ bench }: Kit) => bench.world.seeded.environment.musicSecret],
      ["a root key", ({ bench }: Kit) => bench.world.seeded.environment.rootKey],
      ["no secret", () => ""]
    ] as const
  ).flatMap(
    ([name, secret]): ReadonlyArray<Case> => [
      {
        name: `an event signed with ${name}`,
        make: (kit) => signed(kit, kit.event(production), { secret: secret(kit) }),
        verdict: signature
      },
      {
        name: `a testing event signed with ${name}`,
        make: (kit) => signed(kit, kit.testing(kit.bench.world.seeded.environment), { secret: secret(kit) }),
        verdict: signature
      }
    ]
  ),
  {
    name: "the signature of another event",
    make: (kit) => {
      const other = JSON.stringify(kit.event(production))
      return signed(kit, kit.event(production), {
        signature: signWebhook(
          kit.bench.world.seeded.production.webhookSecret,
          String(kit.now),
          Buffer.from(other)
        )
      })
    },
    verdict: signature
  },
  {
    name: "the event id of another event in the header",
    make: (kit) => signed(kit, kit.event(production), { eventId: randomUUID() }),
    verdict: signature
  },
  // Headers.
  ...Object.values(names).flatMap((name) => [
    headerCase(
      `${name} twice`,
      (headers) =>
        renamed(headers, name, (value) => [
          [name, value],
          [name, value]
        ]),
      signature
    ),
    headerCase(
      `${name} twice in different cases`,
      (headers) =>
        renamed(headers, name, (value) => [
          [name, value],
          [name.toLowerCase(), "0"]
        ]),
      signature
    ),
    headerCase(
      `${name} as a list`,
      (headers) => renamed(headers, name, (value) => [[name, `${value}, ${value}`]]),
      signature
    ),
    headerCase(`no ${name}`, (headers) => renamed(headers, name, () => []), signature),
    headerCase(
      `${name} in upper case and with spaces around`,
      (headers) => renamed(headers, name, (value) => [[name.toUpperCase(), `  ${value}\t `]]),
      "200"
    ),
    headerCase(
      `${name} with a space inside`,
      (headers) => renamed(headers, name, (value) => [[name, `${value} ${value.slice(-1)}`]]),
      signature
    ),
    headerCase(
      `${name} with a no-break space`,
      (headers) => renamed(headers, name, (value) => [[name, `${value}\xa0`]]),
      signature
    )
  ]),
  headerCase(
    "the signature in upper case",
    (headers) => renamed(headers, names.signature, (value) => [[names.signature, value.toUpperCase()]]),
    signature
  ),
  headerCase(
    "a truncated signature",
    (headers) => renamed(headers, names.signature, (value) => [[names.signature, value.slice(0, -2)]]),
    signature
  ),
  headerCase(
    "another scheme before the signature",
    (headers) => renamed(headers, names.signature, (value) => [[names.signature, `v0=00,${value}`]]),
    signature
  ),
  headerCase("a plane selector", (headers) => [...headers, ["X-Testing-Environment-Key", "ask_x"]], "200"),
  // Bytes that parsers read differently; all of them are signed.
  withText("a byte order mark", (text) => `\ufeff${text}`, signature),
  withText("a second value", (text) => `${text}{}`, signature),
  withText("a list around it", (text) => `[${text}]`, signature),
  withText("UTF-16", (text) => Buffer.from(text, "utf16le"), signature),
  withText(
    "invalid UTF-8",
    (text) => Buffer.concat([Buffer.from(text.slice(0, -1)), Buffer.from(',"x":"\xff"}', "latin1")]),
    signature
  ),
  withText("a comment", (text) => `/* */${text}`, signature),
  withText("spaces around it", (text) => ` \n${text}\t`, "200", { takes: [production] }),
  withText(
    "the event id twice, the last one another",
    (text) => text.replace(/}$/, `,"event_id":"${randomUUID()}"}`),
    signature
  ),
  withText(
    "the event id twice, the first one another",
    (text) => text.replace("{", `{"event_id":"${randomUUID()}",`),
    "200",
    { takes: [production] }
  ),
  withText(
    "another specification at its end",
    (text) => text.replace(/}$/, ',"spec_version":"2.0"}'),
    signature
  ),
  withText("__proto__ in place of its members", (text) => `{"__proto__":${text}}`, signature),
  ...(["}", '"data":{'] as const).flatMap((place) =>
    [63, 64, 200_000].map((levels) =>
      withText(
        `${levels} levels of nesting ${place === "}" ? "beside" : "in"} its data`,
        (text) => {
          // The lists are inside one object, or inside two.
          const depth = place === "}" ? levels - 1 : levels - 2
          const nested = `"x":${"[".repeat(depth)}${"]".repeat(depth)}`
          return place === "}" ? text.replace(/}$/, `,${nested}}`) : text.replace(place, `${place}${nested},`)
        },
        levels > 64 ? "400 invalid_input" : "200",
        levels > 64 ? {} : { takes: [production] }
      )
    )
  ),
  // Planes.
  {
    name: "a testing delivery of a known environment",
    make: (kit) => signed(kit, kit.testing(kit.bench.world.seeded.environment)),
    verdict: "200",
    takes: ["testing"]
  },
  {
    name: "a testing delivery of an older sender",
    make: (kit) => {
      const { environment } = kit.bench.world.seeded
      const { controls } = kit.bench.world.iam
      const old = controls.buildWebhook(
        environment.environmentId,
        controls.events.membershipRemoved(environment.environmentId, "si:lyra", "acme", { named: true }),
        { withoutEnvironment: true }
      )
      return { path: "/webhook/", headers: Object.entries(old.headers), body: old.body }
    },
    verdict: "200",
    takes: ["testing"]
  },
  {
    name: "a testing delivery of an environment that is not known",
    make: (kit) => signed(kit, kit.testing(kit.bench.otherEnvironment)),
    verdict: mismatch
  },
  {
    name: "the root key of one environment with the id of another",
    make: (kit) =>
      signed(
        kit,
        kit.testing({
          environmentId: kit.bench.otherEnvironment.environmentId,
          rootKey: kit.bench.world.seeded.environment.rootKey
        })
      ),
    verdict: mismatch
  },
  {
    name: "the id of a known environment with the root key of another",
    make: (kit) =>
      signed(
        kit,
        kit.testing({
          environmentId: kit.bench.world.seeded.environment.environmentId,
          rootKey: kit.bench.otherEnvironment.rootKey
        })
      ),
    verdict: mismatch
  },
  {
    name: "a testing delivery with a production event beside it",
    make: (kit) =>
      signed(kit, { ...kit.testing(kit.bench.world.seeded.environment), ...kit.event(production) }),
    verdict: signature
  },
  {
    name: "a production event that names an environment",
    make: (kit) =>
      signed(
        kit,
        kit.event(production, { environment_id: kit.bench.world.seeded.environment.environmentId })
      ),
    verdict: "200",
    takes: [production]
  },
  ...(["null", "false", "true", "0", '""', "[]", "{}"] as const).map((test) =>
    withTest(test, test, signature)
  ),
  {
    name: "a testing event whose second test is null",
    make: (kit) => {
      const event = kit.testing(kit.bench.world.seeded.environment)
      return signed(kit, event, { body: JSON.stringify(event).replace(/}$/, ',"test":null}') })
    },
    verdict: signature
  },
  {
    name: "a testing event whose first test is null",
    make: (kit) => {
      const event = kit.testing(kit.bench.world.seeded.environment)
      return signed(kit, event, { body: JSON.stringify(event).replace("{", '{"test":null,') })
    },
    verdict: "200",
    takes: ["testing"]
  },
  {
    name: "test as an escaped name",
    make: (kit) => {
      const event = kit.event(production)
      return signed(kit, event, { body: JSON.stringify(event).replace("{", '{"te\\u0073t":{},') })
    },
    verdict: signature
  },
  withText("TEST in upper case", (text) => text.replace("{", '{"TEST":{},'), "200", { takes: [production] }),
  {
    name: "test inside the data",
    make: (kit) => {
      const event = kit.event(production)
      return signed(kit, event, { body: JSON.stringify(event).replace('"data":{', '"data":{"test":{},') })
    },
    verdict: "200",
    takes: [production]
  },
  // Contents.
  {
    name: "an organisation that is not known",
    make: (kit) => signed(kit, kit.event(production, { organization_id: randomUUID() })),
    verdict: "200",
    takes: [production],
    inert: true
  },
  {
    name: "no organisation",
    make: (kit) => signed(kit, kit.event(production, { organization_id: null })),
    verdict: "200",
    takes: [production],
    inert: true
  },
  {
    name: "an organisation by its handle",
    make: (kit) => signed(kit, kit.event(production, { organization_id: "acme" })),
    verdict: signature
  },
  {
    name: "an event about another application",
    make: (kit) =>
      signed(
        kit,
        kit.event(production, {
          event_type: "application.updated.v1",
          aggregate: { type: "application", id: "ting", version: 1 }
        })
      ),
    verdict: "200",
    takes: [production],
    inert: true
  },
  ...["0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z"].map(
    (occurred_at): Case => ({
      name: `an event of ${occurred_at}`,
      make: (kit) => signed(kit, kit.event(production, { occurred_at })),
      verdict: "200",
      takes: [production],
      inert: true
    })
  ),
  ...[
    "9999-99-99T00:00:00Z",
    "2026-01-01",
    "99999-01-01T00:00:00Z",
    "+275760-09-13T00:00:00Z",
    "now",
    ""
  ].map(
    (occurred_at): Case => ({
      name: `an event of ${occurred_at}`,
      make: (kit) => signed(kit, kit.event(production, { occurred_at })),
      verdict: signature
    })
  ),
  ...[0, -1, 1.5, Number.POSITIVE_INFINITY, "4", 2 ** 53].map(
    (version): Case => ({
      name: `an aggregate of version ${version}`,
      make: (kit) =>
        signed(
          kit,
          kit.event(production, { aggregate: { type: "organization_membership", id: "m", version } })
        ),
      verdict: signature
    })
  )
]

const lyra = { org: "acme", actor: "si:lyra" } as const

const inboxOf = ({ query }: Bench) =>
  query("SELECT plane, event_id FROM webhook_inbox ORDER BY plane, event_id")
const activeIn = ({ query }: Bench, plane: string): boolean =>
  query("SELECT active FROM recipients WHERE plane = ? AND public_id = ?", plane, lyra.actor)[0]?.active === 1

const makeKit = (bench: Bench): Kit => {
  const { controls } = bench.world.iam
  const now = Math.floor(bench.clock.now() / 1_000)
  const { webhookKeyVersion, webhookSecret } = bench.world.seeded.production
  const event = (plane: string, change: Json = {}): Json => {
    const removal = controls.events.membershipRemoved(plane, lyra.actor, lyra.org, { named: true })
    const { body } = controls.buildWebhook(production, {
      ...removal,
      aggregate: { type: "organization_membership", id: randomUUID(), version: 5 }
    })
    return { ...JSON.parse(body.toString("utf8")), ...change }
  }
  return {
    bench,
    now,
    event,
    testing: ({ environmentId, rootKey }, change = {}) => {
      // The people of the known environment: another environment must not reach them.
      const { data, ...metadata } = event(bench.world.seeded.environment.environmentId, change)
      return {
        test: {
          testing_key: rootKey,
          metadata: { environment_id: environmentId, generation: 1, ...metadata },
          data
        }
      }
    },
    headers: ({
      body,
      eventId,
      keyVersion = webhookKeyVersion,
      secret = webhookSecret,
      signature,
      timestamp = now
    }) => [
      ["Content-Type", "application/json"],
      [names.eventId, eventId],
      [names.timestamp, String(timestamp)],
      [names.keyVersion, String(keyVersion)],
      [names.signature, signature ?? signWebhook(secret, String(timestamp), Buffer.from(body))]
    ]
  }
}

/** Makes `si:lyra` a recipient in both planes, a minute ago. */
const register = ({ clock, query, world }: Bench) => {
  const planes = [
    [production, world.seeded.production.organizations.acme],
    [world.seeded.environment.environmentId, world.seeded.environment.organizations.acme]
  ] as const
  query("DELETE FROM recipients WHERE public_id = ?", lyra.actor)
  for (const [plane, organisation] of planes)
    query(
      "INSERT INTO recipients (plane, organisation, organisation_uuid, public_id, active, changed_at) VALUES (?, ?, ?, ?, 1, ?)",
      plane,
      lyra.org,
      organisation,
      lyra.actor,
      clock.now() - 60_000
    )
}

const playCase = async (bench: Bench, { inert, make, name, takes = [], verdict }: Case) => {
  register(bench)
  const before = inboxOf(bench)
  const request = make(makeKit(bench))
  const planes = { production, testing: bench.world.seeded.environment.environmentId }
  const broken: Array<string> = []
  const check = (said: string, wanted: string) => {
    if (said !== wanted) broken.push(`${name}: ${said} instead of ${wanted}`)
  }
  const answer = await send(bench.first, request)
  check(verdictOf(answer), verdict)
  const state = () =>
    [
      ...inboxOf(bench)
        .slice()
        .filter(({ event_id }) => !before.some((row) => row.event_id === event_id))
        .map(({ plane }) => `stored in ${plane}`),
      ...Object.values(planes).map((plane) => `${plane} ${activeIn(bench, plane) ? "active" : "removed"}`)
    ].join(", ")
  const wanted = [
    ...takes.map((plane) => `stored in ${planes[plane]}`),
    ...(["production", "testing"] as const).map(
      (plane) => `${planes[plane]} ${takes.includes(plane) && inert !== true ? "removed" : "active"}`
    )
  ].join(", ")
  check(state(), wanted)
  if (verdict !== "200") return broken

  // Replays: the very bytes, the other path, the other instance, and a new event id with the old signature.
  register(bench)
  const once = inboxOf(bench).length
  const id =
    request.headers?.find(([header]) => header.toLowerCase() === names.eventId.toLowerCase())?.[1] ?? ""
  for (const [how, target, replay, says] of [
    ["sent again", bench.first, request, "200"],
    ["sent again by the other path", bench.first, { ...request, path: "/webhook" }, "200"],
    ["sent again to the other instance", bench.second, request, "200"],
    [
      "sent again with another event id in the header",
      bench.first,
      {
        ...request,
        headers: renamed(request.headers ?? [], names.eventId, () => [[names.eventId, randomUUID()]])
      },
      signature
    ],
    [
      "sent again with another event id in the body",
      bench.first,
      { ...request, body: Buffer.from(String(request.body).replaceAll(id.trim(), randomUUID())) },
      signature
    ]
  ] as const) {
    const again = verdictOf(await send(target, replay))
    if (how.includes("in the header") && name.includes(names.eventId)) continue
    if (again !== says) broken.push(`${name}, ${how}: ${again} instead of ${says}`)
  }
  if (inboxOf(bench).length !== once || !activeIn(bench, production) || !activeIn(bench, planes.testing))
    broken.push(`${name}: a repetition had an effect`)
  return broken
}

/** Events in a wrong order, and an event id that two planes use. */
const playOrder = async (bench: Bench): Promise<ReadonlyArray<string>> => {
  const kit = makeKit(bench)
  const { environment } = bench.world.seeded
  const broken: Array<string> = []
  const aggregate = (version: number) => ({ type: "organization_membership", id: "order", version })

  register(bench)
  const later = signed(
    kit,
    kit.event(production, { event_type: "organization.membership.updated.v1", aggregate: aggregate(9) })
  )
  const earlier = signed(kit, kit.event(production, { aggregate: aggregate(8) }))
  for (const request of [later, earlier]) {
    const said = verdictOf(await send(bench.first, request))
    if (said !== "200") broken.push(`order: ${said}`)
  }
  if (!activeIn(bench, production))
    broken.push("a removal of an earlier version than the last one had an effect")

  // Another plane's later version says nothing about this plane.
  register(bench)
  for (const event of [
    kit.testing(environment, { event_type: "organization.membership.updated.v1", aggregate: aggregate(20) }),
    kit.event(production, { aggregate: aggregate(10) })
  ])
    await send(bench.first, signed(kit, event))
  if (activeIn(bench, production))
    broken.push("a later version of a testing plane held a removal of production back")

  for (const first of ["testing", production] as const) {
    register(bench)
    const event_id = randomUUID()
    const both = [kit.testing(environment, { event_id }), kit.event(production, { event_id })]
    for (const event of first === production ? both.reverse() : both) {
      const said = verdictOf(await send(bench.first, signed(kit, event)))
      if (said !== "200") broken.push(`an event id of both planes, ${first} first: ${said}`)
    }
    const stored = bench.query("SELECT plane FROM webhook_inbox WHERE event_id = ?", event_id).length
    if (stored !== 2 || activeIn(bench, production) || activeIn(bench, environment.environmentId))
      broken.push(`an event id of both planes, ${first} first: stored ${stored} times, or without its effect`)
  }

  // A registration after the removal happened stays, however late the removal arrives.
  register(bench)
  const occurred_at = new Date(bench.clock.now() - 120_000).toISOString()
  await send(bench.first, signed(kit, kit.event(production, { occurred_at })))
  if (!activeIn(bench, production)) broken.push("a removal before the registration ended it")

  // The bounds of the time, to the second.
  for (const [offset, says] of [
    [300, "200"],
    [301, signature]
  ] as const) {
    const request = signed(kit, kit.event(production))
    bench.clock.advance((kit.now + offset) * 1_000 + 200 - bench.clock.now())
    const said = verdictOf(await send(bench.first, request))
    if (said !== says) broken.push(`a delivery ${offset} s old: ${said} instead of ${says}`)
  }
  return broken
}

export const webhookAttack: ApartAttack = {
  name: "webhooks",
  play: () =>
    withBench(async (bench) => {
      // Only now the first environment is known; the other one is not.
      await logIn(bench, "si:deejay", bench.world.seeded.environment.musicSecret)
      const { environmentId } = bench.world.seeded.environment
      for (const plane of [production, environmentId])
        bench.world.iam.controls.removeMembership(plane, lyra.actor, lyra.org)
      const broken: Array<string> = []
      for (const one of cases) broken.push(...(await playCase(bench, one)))
      broken.push(...(await playOrder(bench)))
      const kept = JSON.stringify(bench.query("SELECT * FROM webhook_inbox"))
      if (kept.includes(bench.world.seeded.environment.rootKey)) broken.push("the inbox holds a testing key")
      return broken
    })
}
