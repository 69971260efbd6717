/** Credentials and keys in the wrong place, plane or hands: what is answered, and that nothing happened. Wrong shapes are in test/world/Inputs.ts. */
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { production } from "../../../sandbox/upstreams/Iam.ts"
import { addActor, type Call, callNames, calls, logInAtIam, registerSender } from "../../world/Calls.ts"
import {
  type Answer,
  bearer,
  codeOf,
  isSuccess,
  keyed,
  post,
  requests,
  selecting,
  type Sent
} from "../../world/Driver.ts"
import { rowsOf } from "../../world/Oracle.ts"
import { type Instance, openWorld, type World } from "../../world/World.ts"

let world: World
let first: Instance
let second: Instance
let environmentId = ""
let testingSecret = ""

beforeAll(async () => {
  world = await openWorld({
    instances: 2,
    iamLimit: Number.POSITIVE_INFINITY,
    // So that two requests can be in flight together.
    latency: () => 15,
    settings: { rateLimit: false, iam: { callsPerMinute: 10_000 } }
  })
  const [one, other] = world.instances
  if (one === undefined || other === undefined) throw new Error("no instances")
  ;[first, second] = [one, other]
  environmentId = world.upstreams.seeded.environment.environmentId
  testingSecret = world.upstreams.seeded.environment.musicSecret
  await registerSender(world, first)
})
afterAll(() => world.close())

const ask = ({ send }: Instance, request: Sent) => world.time.complete(send("198.51.100.7", request))
const verdictOf = (answer: Answer) => [answer.status, codeOf(answer)].filter(Boolean).join(" ")

let names = 0
const newName = () => {
  names += 1
  return String(names)
}
const newKey = () => `identity-key-${newName().padStart(12, "0")}`
const controls = () => world.upstreams.iam.controls

/** All that requests have effect on: equal before and after means that nothing happened. */
const effects = () =>
  JSON.stringify([
    ...[production, environmentId].map((plane) => {
      const { accessTokens, families, refreshTokens, slts } = controls().plane(plane)
      return [
        accessTokens.size,
        [...families.values()].filter(({ status }) => status === "active").length,
        [...refreshTokens.values()].filter(({ consumed }) => consumed).length,
        [...slts.values()].filter(({ spent }) => spent).length,
        world.upstreams.ting.controls.accepted(plane).length
      ]
    }),
    ...["recipients", "login_outcomes", "reports", "webhook_inbox", "spool"].map((table) =>
      rowsOf(world.database, `SELECT COUNT(*) AS count FROM ${table}`)
    )
  ])

const expectNothing = async (name: string, request: Sent, verdict: string) => {
  const before = effects()
  expect([name, verdictOf(await ask(first, request)), effects()]).toEqual([name, verdict, before])
}

const takesCredential = ({ calls: asked, operation }: Call) =>
  operation.startsWith("auth.") || asked.includes("introspect")
const readsBearer = (call: Call) =>
  call.operation === "reports.submit" ||
  (takesCredential(call) && !/login|refresh|logout/.test(call.operation))
const readsPlane = ({ operation }: Call) => !/^(?:webhooks|system)\.|\.version$/.test(operation)
const productive: ReadonlyArray<Call> = callNames
  .map((name): Call => calls[name])
  .filter(({ calls: asked }) => !asked.includes("context"))

/** A valid request of a new caller, with other headers. */
const changed = (call: Call, headers: Sent["headers"]): Sent => {
  const { request } = call.prepare({ world, name: newName() })
  return { ...request, headers: { ...request.headers, ...headers } }
}

describe("A credential in the wrong place", () => {
  it("is no session at any call that reads a bearer", async () => {
    const own = logInAtIam(world, addActor(world, "si:owner"))
    const testing = logInAtIam(world, addActor(world, "si:owner", environmentId), environmentId)
    const revoked = logInAtIam(world, addActor(world, "si:revoked"))
    await ask(first, requests.logout(revoked.refresh, newKey()))
    const { environment, production: seeded } = world.upstreams.seeded
    const bearers = {
      "a refresh token": own.refresh,
      "a short-lived token": controls().mintSlt(production, { appId: "music", actor: "si:owner" }),
      "our secret": seeded.musicSecret,
      "a testing secret": testingSecret,
      "a root key": environment.rootKey,
      "a token of a testing plane": testing.access,
      "a revoked token": revoked.access,
      "one letter less": own.access.slice(0, -1)
    }
    for (const call of productive.filter(readsBearer))
      for (const [name, token] of Object.entries(bearers))
        await expectNothing(
          `${call.operation} with ${name}`,
          changed(call, bearer(token)),
          "401 unauthenticated"
        )
  })

  it("selects no plane at any call that reads one", async () => {
    const addEnvironment = (name: string) => {
      const added = controls().addEnvironment({ orgId: "acme", name }).environmentId
      return { added, ...controls().importApp(added, "music") }
    }
    const [deleted, rotated] = [addEnvironment("deleted"), addEnvironment("rotated")]
    controls().deleteEnvironment(deleted.added)
    controls().rotateSecret(rotated.added, "music")
    const { environment, production: seeded } = world.upstreams.seeded
    const selectors = {
      "our secret": seeded.musicSecret,
      "another application's testing secret": environment.tingSecret,
      "a deleted environment's": deleted.secret,
      "a rotated one": rotated.secret
    }
    for (const call of productive.filter(readsPlane))
      for (const [name, secret] of Object.entries(selectors))
        await expectNothing(
          `${call.operation} with ${name}`,
          changed(call, selecting(secret)),
          "401 testing_secret_invalid"
        )
  })

  it("of production is nothing in a testing plane", async () => {
    const verdicts: Readonly<Record<string, string>> = {
      "auth.login": "401 slt_rejected",
      "auth.logout": "204"
    }
    for (const call of productive.filter(takesCredential))
      await expectNothing(
        call.operation,
        changed(call, selecting(testingSecret)),
        verdicts[call.operation] ?? "401 unauthenticated"
      )
    await expectNothing("telemetry", changed(calls.telemetry, selecting(testingSecret)), "204")
  })

  it("in a body is refused, and spends nothing", async () => {
    const own = logInAtIam(world, addActor(world, "si:owner"))
    const testing = logInAtIam(world, addActor(world, "si:owner", environmentId), environmentId)
    const slt = (appId = "music") => controls().mintSlt(production, { appId, actor: "si:owner" })
    const bodies: ReadonlyArray<readonly [call: string, body: object, verdict: string]> = [
      ...[slt("ting"), "si:owner", own.access, own.refresh, `x&slt=${slt()}`].map(
        (given) => ["login", { slt: given }, "401 slt_rejected"] as const
      ),
      ...[own.access, testing.refresh, slt(), `ort_x&refresh_token=${own.refresh}`].map(
        (given) => ["refresh", { refresh_token: given }, "401 unauthenticated"] as const
      ),
      ...[testing.refresh, world.upstreams.seeded.production.musicSecret, `ort_x&token=${own.refresh}`].map(
        (given) => ["logout", { token: given }, "204"] as const
      )
    ]
    for (const [call, body, verdict] of bodies)
      await expectNothing(
        `${call} ${JSON.stringify(body)}`,
        post(`/api/v1/auth/${call}`, body, keyed(newKey())),
        verdict
      )
    expect(world.oracle.problems()).toEqual([])
  })
})

/** Milliseconds between the two callers. IAM and the service repeat an answer for 10 minutes. */
const moments = [
  ["at the same time", 0],
  ["after 9 minutes", 540_000]
] as const
const conflict = "409 idempotency_conflict"
const tokensIn = ({ text }: Answer) => text.match(/o[ar]t_[\w-]+/g) ?? []

const rows = (["login", "refresh", "logout"] as const).flatMap((operation) =>
  [false, true].flatMap((isTesting) => moments.map((moment) => [operation, isTesting, ...moment] as const))
)
it.each(rows)("Another caller's key of %s, testing: %s, %s", async (operation, isTesting, _, after) => {
  const prepare = (actor: string, plane: string, secret?: string) => {
    addActor(world, actor, plane)
    const slt = plane === production ? controls().mintSlt(production, { appId: "music", actor }) : actor
    const credential = operation === "login" ? slt : logInAtIam(world, actor, plane).refresh
    return { actor, request: (key: string) => requests[operation](credential, key, secret) }
  }
  const thief = () =>
    isTesting ? prepare("c:thief", environmentId, testingSecret) : prepare("c:thief", production)
  /** Each token of the answer belongs to its caller. */
  const belongs = (answer: Answer, { actor }: { readonly actor: string }) => {
    expect(tokensIn(answer).filter((token) => controls().familyOf(token)?.actor !== actor)).toEqual([])
    expect(answer.text).not.toContain(actor === "c:thief" ? "si:victim" : "c:thief")
  }
  const key = newKey()
  const victim = prepare("si:victim", production)
  const early = after === 0 ? thief() : undefined
  const sent = first.send("198.51.100.7", victim.request(key))
  if (early === undefined) await world.time.complete(sent)
  world.time.jump(after)
  const other = early ?? thief()
  // In flight, executions are shared by an instance; afterwards, by all.
  const two = await ask(after === 0 ? first : second, other.request(key))
  const one = await world.time.complete(sent)
  expect([one, two].map((answer) => (isSuccess(answer) ? "done" : verdictOf(answer))).sort()).toEqual(
    [isTesting ? "done" : conflict, "done"].sort()
  )
  for (const [answer, party] of [
    [one, victim],
    [two, other]
  ] as const) {
    belongs(answer, party)
    // A conflict spends nothing: the same credential works under a key of its own.
    if (!isSuccess(answer)) expect((await ask(first, party.request(newKey()))).status).toBeLessThan(300)
  }
  if (!isSuccess(one)) return
  for (const instance of [first, second]) {
    const again = await ask(instance, victim.request(key))
    belongs(again, victim)
    expect([isSuccess(again), tokensIn(again)]).toEqual([true, tokensIn(one)])
  }
})
