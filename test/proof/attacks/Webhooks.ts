/**
 * Deliveries that IAM signed for another plane or reader: what is answered, and which plane takes the event. There it is in the inbox
 * once, and the person whom it removes is no recipient any more. Signatures, times and contents have their table at the verifier.
 */
import { randomUUID } from "node:crypto"
import { signWebhook } from "../../../sandbox/upstreams/iam/WebhookSignature.ts"
import { type Bench, type IdentityAttack, logIn, type Sent, verdictOf } from "./Bench.ts"

type Json = Readonly<Record<string, unknown>>

const production = "production"
const lyra = { org: "acme", actor: "si:lyra" } as const
const mismatch = "403 plane_mismatch"
const invalid = "401 webhook_signature_invalid"

/** The event that removes `si:lyra` from acme in a plane, as IAM sends it. */
const removal = ({ world }: Bench, plane: string): Json => {
  const { buildWebhook, events } = world.iam.controls
  const removed = events.membershipRemoved(plane, lyra.actor, lyra.org, { named: true })
  const aggregate = { type: "organization_membership", id: randomUUID(), version: 5 }
  return JSON.parse(buildWebhook(production, { ...removed, aggregate }).body.toString("utf8"))
}

/** In the testing envelope of an environment, about the people of the known one. */
const inTesting = (bench: Bench, environment: { environmentId: string; rootKey: string }): Json => {
  const { data, ...metadata } = removal(bench, bench.world.seeded.environment.environmentId)
  const environment_id = environment.environmentId
  const enveloped = { environment_id, generation: 1, ...metadata }
  return { test: { testing_key: environment.rootKey, metadata: enveloped, data } }
}

const sign = ({ clock, world }: Bench, event: Json, secret?: string): Sent => {
  const { webhookKeyVersion, webhookSecret } = world.seeded.production
  const body = JSON.stringify(event)
  const timestamp = String(Math.floor(clock.now() / 1_000))
  return {
    path: "/webhook/",
    body,
    headers: [
      ["X-Silicon-IAM-Event-ID", /"event_id":"([^"]+)"/.exec(body)?.[1] ?? ""],
      ["X-Silicon-IAM-Timestamp", timestamp],
      ["X-Silicon-IAM-Key-Version", String(webhookKeyVersion)],
      ["X-Silicon-IAM-Signature", signWebhook(secret ?? webhookSecret, timestamp, Buffer.from(body))]
    ]
  }
}

/** The plane that takes the event; none by default. */
type Case = readonly [name: string, sent: Sent, verdict: string, takes?: string]

const casesOf = (bench: Bench): ReadonlyArray<Case> => {
  const { otherEnvironment } = bench
  const { environment } = bench.world.seeded
  const { environmentId, rootKey } = environment
  const own = sign(bench, removal(bench, production))
  const testing = (change: Partial<typeof environment>) =>
    sign(bench, inTesting(bench, { ...environment, ...change }))
  const beside = { ...inTesting(bench, environment), ...removal(bench, production) }
  const unknown = inTesting(bench, otherEnvironment)
  return [
    ["the untouched delivery", own, "200", production],
    ["a delivery of a known environment", testing({}), "200", environmentId],
    ["a delivery of an environment that is not known", sign(bench, unknown), mismatch],
    ["one's root key, another's id", testing({ environmentId: otherEnvironment.environmentId }), mismatch],
    ["one's id, another's root key", testing({ rootKey: otherEnvironment.rootKey }), mismatch],
    [
      "a testing event signed with its root key",
      sign(bench, inTesting(bench, environment), rootKey),
      invalid
    ],
    ["a testing event with a production event beside it", sign(bench, beside), invalid],
    ["another body under the signature", { ...own, body: testing({}).body ?? "" }, invalid]
  ]
}

/** Makes `si:lyra` a recipient in both planes, a minute ago. */
const register = ({ clock, query, world }: Bench) => {
  const { environment, production: own } = world.seeded
  query("DELETE FROM recipients WHERE public_id = ?", lyra.actor)
  for (const [plane, { acme }] of [
    [production, own.organizations],
    [environment.environmentId, environment.organizations]
  ] as const)
    query(
      "INSERT INTO recipients (plane, organisation, organisation_uuid, public_id, active, changed_at) VALUES (?, ?, ?, ?, 1, ?)",
      ...[plane, lyra.org, acme, lyra.actor, clock.now() - 60_000]
    )
}

/** Planes in which the inbox has a new event, and those in which `si:lyra` is no recipient. */
const stateOf = ({ query }: Bench, before: number) =>
  [
    ...query("SELECT plane FROM webhook_inbox WHERE rowid > ?", before).map(
      ({ plane }) => `stored in ${plane}`
    ),
    ...query("SELECT plane FROM recipients WHERE public_id = ? AND active = 0", lyra.actor).map(
      ({ plane }) => `removed in ${plane}`
    )
  ].join(", ")

const lastRow = ({ query }: Bench) =>
  Number(query("SELECT COALESCE(MAX(rowid), 0) AS last FROM webhook_inbox")[0]?.last)

export const webhookAttack: IdentityAttack = {
  name: "webhooks",
  play: async (bench) => {
    const { environment } = bench.world.seeded
    // Only now the first environment is known; the other one is not.
    await logIn(bench, "si:deejay", environment.musicSecret)
    for (const plane of [production, environment.environmentId])
      bench.world.iam.controls.removeMembership(plane, lyra.actor, lyra.org)
    const broken: Array<string> = []
    const check = (name: string, found: string, wanted: string) => {
      if (found !== wanted) broken.push(`${name}: ${found} instead of ${wanted}`)
    }
    for (const [name, sent, verdict, plane] of casesOf(bench)) {
      register(bench)
      const before = lastRow(bench)
      check(name, verdictOf(await bench.first(sent)), verdict)
      check(
        name,
        stateOf(bench, before),
        plane === undefined ? "" : `stored in ${plane}, removed in ${plane}`
      )
      // The same bytes again, by the other path and to the other instance.
      register(bench)
      const once = lastRow(bench)
      for (const send of [bench.first, bench.second]) await send({ ...sent, path: "/webhook" })
      check(`${name}, again`, stateOf(bench, once), "")
    }
    // An event id belongs to its plane.
    register(bench)
    const event = inTesting(bench, environment)
    const id = /"event_id":"([^"]+)"/.exec(JSON.stringify(event))?.[1] ?? ""
    for (const one of [event, { ...removal(bench, production), event_id: id }])
      await bench.first(sign(bench, one))
    const stored = bench.query("SELECT plane FROM webhook_inbox WHERE event_id = ?", id).length
    check("an event id of both planes", `stored ${stored} times`, "stored 2 times")
    return broken
  }
}
