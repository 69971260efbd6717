/**
 * A second caller with the idempotency key of a first one, for every call that takes a key: at the same time, soon, and long after; at
 * the same instance, at another one, and in another plane. No caller gets what belongs to another, and a conflict spends nothing.
 */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { faults } from "../../../sandbox/upstreams/Simulator.ts"
import { iamFaults } from "../../../sandbox/upstreams/Iam.ts"
import type { RefreshToken } from "../../../sandbox/upstreams/iam/Model.ts"
import { root } from "../../support/Process.ts"
import type { ApartAttack } from "./ApartAttack.ts"
import {
  bearing,
  type Bench,
  logIn,
  newKey,
  selecting,
  type Sent,
  send,
  verdictOf,
  withBench
} from "./Bench.ts"
import type { WireAnswer } from "./Wire.ts"

const victim = "si:deejay"
const thief = "c:ana"

/** One caller's request, ready to be sent under any key. */
interface Party {
  readonly actor: string
  /** What no other caller may be answered. */
  readonly secrets: Array<string>
  readonly request: (key: string) => Sent
  /** Whether the request has not taken effect. */
  readonly isUnspent: () => boolean
}

type Prepare = (bench: Bench, actor: string, secret: string | undefined) => Promise<Party>

const withKey = (sent: Sent, key: string): Sent => ({
  ...sent,
  headers: [["Idempotency-Key", key], ...(sent.headers ?? [])]
})

/** Reads the simulator's own state: asking the service would be another call. */
const planeOf = ({ world }: Bench, secret: string | undefined) =>
  world.iam.controls.plane(secret === undefined ? "production" : world.seeded.environment.environmentId)

/** A call that takes the refresh token of a session in a field. */
const ofSession =
  (name: string, field: string, isUnspent: (token: RefreshToken | undefined) => boolean): Prepare =>
  async (bench, actor, secret) => {
    const { accessToken, refreshToken } = await logIn(bench, actor, secret)
    const body = JSON.stringify({ [field]: refreshToken })
    return {
      actor,
      secrets: [accessToken, refreshToken],
      request: (key) => withKey({ path: `/api/v1/auth/${name}`, headers: selecting(secret), body }, key),
      isUnspent: () => isUnspent(planeOf(bench, secret).refreshTokens.get(refreshToken))
    }
  }

const preparations: Readonly<Record<string, Prepare>> = {
  login: async (bench, actor, secret) => {
    const slt =
      secret === undefined ? bench.world.iam.controls.mintSlt("production", { appId: "music", actor }) : actor
    return {
      actor,
      secrets: secret === undefined ? [slt] : [],
      request: (key) =>
        withKey(
          { path: "/api/v1/auth/login", headers: selecting(secret), body: JSON.stringify({ slt }) },
          key
        ),
      isUnspent: () => planeOf(bench, secret).slts.get(slt)?.spent !== true
    }
  },
  refresh: ofSession(
    "refresh",
    "refresh_token",
    (token) => token?.consumed === false && token.family.status === "active"
  ),
  logout: ofSession("logout", "token", (token) => token?.family.status === "active")
}

/** Calls that take a key: those prepared here, and reports, which `playReports` sends. */
const keyedPaths = [...Object.keys(preparations).map((name) => `/api/v1/auth/${name}`), "/api/v1/reports"]

/** Compares `keyedPaths` with the contract: a further call with a key needs an attack. */
const checkKeyedPaths = (): ReadonlyArray<string> => {
  const contract: {
    readonly paths: Readonly<
      Record<
        string,
        Readonly<Record<string, { readonly parameters?: ReadonlyArray<{ readonly name: string }> }>>
      >
    >
  } = JSON.parse(readFileSync(join(root, "docs/openapi.json"), "utf8"))
  const documented = Object.entries(contract.paths)
    .filter(([, calls]) =>
      Object.values(calls).some((call) => call.parameters?.some(({ name }) => name === "Idempotency-Key"))
    )
    .map(([path]) => path)
  return [
    ...documented.filter((path) => !keyedPaths.includes(path)),
    ...keyedPaths.filter((path) => !documented.includes(path))
  ].map((path) => `${path} takes a key without an attack, or has an attack without taking a key`)
}

const moments = {
  "at the same time": 0,
  "right after": 0,
  "after 9 minutes": 9 * 60_000,
  "after 11 minutes": 11 * 60_000,
  "after 25 hours": 25 * 3_600_000
} as const

const places = ["the same instance", "another instance", "a testing plane"] as const

const credentialsIn = (answer: WireAnswer): ReadonlyArray<string> =>
  [...answer.body.matchAll(/"(?:access_token|refresh_token)":"([^"]+)"/g)].map(([, token = ""]) => token)

/** What an answer has of another caller. */
const leaks = (answer: WireAnswer, other: Party): ReadonlyArray<string> => {
  const text = `${[...answer.headers].flat(2).join("\n")}\n${answer.body}`
  return [other.actor, ...other.secrets].filter((secret) => text.includes(secret))
}

const playScenario = async (
  bench: Bench,
  operation: string,
  moment: keyof typeof moments,
  place: (typeof places)[number]
): Promise<ReadonlyArray<string>> => {
  const prepare = preparations[operation]
  if (prepare === undefined) return [`${operation} is not prepared`]
  const secret = place === "a testing plane" ? bench.world.seeded.environment.musicSecret : undefined
  const target = place === "another instance" ? bench.second : bench.first
  const key = newKey()
  const broken: Array<string> = []
  const said = (who: string, answer: WireAnswer, wanted: ReadonlyArray<string>) => {
    if (!wanted.includes(verdictOf(answer)))
      broken.push(`${who}: ${verdictOf(answer)} instead of ${wanted.join(" or ")}`)
  }
  const belongs = (who: string, answer: WireAnswer, party: Party, other: Party) => {
    for (const leak of leaks(answer, other)) broken.push(`${who} got ${leak.slice(0, 12)}… of the other one`)
    for (const token of credentialsIn(answer)) {
      const actor = bench.world.iam.controls.familyOf(token)?.actor
      if (actor !== party.actor) broken.push(`${who} got a session of ${actor}`)
      party.secrets.push(token)
    }
  }
  const success = operation === "logout" ? "204" : "200"
  const conflict = "409 idempotency_conflict"
  const first = await prepare(bench, victim, undefined)

  if (moment === "at the same time") {
    const second = await prepare(bench, thief, secret)
    bench.world.iam.fail({
      path: /\/(?:app-auth\/tokens|oauth\/revoke)$/,
      method: "POST",
      fault: faults.delay(30)
    })
    const [one, two] = await Promise.all([
      send(bench.first, first.request(key)),
      send(target, second.request(key))
    ])
    bench.world.iam.clearFaults()
    belongs("the first", one, first, second)
    belongs("the second", two, second, first)
    const verdicts = [verdictOf(one), verdictOf(two)]
    const winners = verdicts.filter((verdict) => verdict === success).length
    if (
      winners !== (place === "a testing plane" ? 2 : 1) ||
      verdicts.some((verdict) => verdict !== success && verdict !== conflict)
    )
      broken.push(`the answers ${verdicts.join(" and ")}`)
    for (const [who, party, verdict] of [
      ["the first", first, verdicts[0]],
      ["the second", second, verdicts[1]]
    ] as const)
      if (verdict === conflict && !party.isUnspent()) broken.push(`the conflict of ${who} spent something`)
    return broken
  }

  const one = await send(bench.first, first.request(key))
  said("the first", one, [success])
  bench.clock.advance(moments[moment])
  const second = await prepare(bench, thief, secret)
  const two = await send(target, second.request(key))
  belongs("the first", one, first, second)
  belongs("the second", two, second, first)
  const isFree = place === "a testing plane" || moment === "after 25 hours"
  said("the second", two, [isFree ? success : conflict])
  if (!isFree) {
    if (!second.isUnspent()) broken.push("the conflict spent something of the second")
    const fresh = await send(target, second.request(newKey()))
    said("the second under its own key", fresh, [success])
    belongs("the second under its own key", fresh, second, first)
  }
  // The first one's repetition, at both instances.
  for (const instance of [bench.first, bench.second]) {
    const again = await send(instance, first.request(key))
    belongs("the repetition", again, first, second)
    const inTime = moment === "right after" || moment === "after 9 minutes"
    said(
      "the repetition",
      again,
      inTime || (operation === "logout" && moment !== "after 25 hours")
        ? [success]
        : moment === "after 25 hours"
          ? [conflict, "401 unauthenticated", "401 slt_rejected", success]
          : ["409 idempotency_response_expired"]
    )
    if (inTime && operation !== "logout" && credentialsIn(again).join() !== credentialsIn(one).join())
      broken.push("the repetition got another session than the first answer")
  }
  return broken
}

const message = "The player stops after a seek near the end of a track."

/** Reports keep their keys in the database; the reporter is a part of who may repeat one. */
const playReports = async (bench: Bench): Promise<ReadonlyArray<string>> => {
  const broken: Array<string> = []
  const { environment } = bench.world.seeded
  const one = await logIn(bench, victim)
  const two = await logIn(bench, thief)
  const three = await logIn(bench, thief, environment.musicSecret)
  const dead = `oat_${"x".repeat(43)}`
  const report = (key: string, text: string, headers: Sent["headers"] = []) =>
    withKey({ path: "/api/v1/reports", headers, body: JSON.stringify({ message: text }) }, key)
  const other = `${message} Also after a pause.`
  const thieves: ReadonlyArray<
    readonly [name: string, headers: Sent["headers"], text: string, verdict: string]
  > = [
    ["a signed-in thief with the same text", bearing(two.accessToken), message, "200"],
    ["a signed-in thief with another text", bearing(two.accessToken), other, "200"],
    ["a nameless thief with another text", [], other, "200"],
    ["a thief with a dead token", bearing(dead), message, "401 unauthenticated"],
    [
      "a thief in a testing plane",
      [...bearing(three.accessToken), ...selecting(environment.musicSecret)],
      message,
      "200"
    ],
    ["a nameless thief in a testing plane", selecting(environment.musicSecret), message, "200"]
  ]
  for (const reporter of ["signed in", "nameless"] as const)
    for (const [name, headers, text, verdict] of [
      ...thieves,
      ...(reporter === "signed in"
        ? [["a nameless thief with the same text", [], message, "200"] as const]
        : [])
    ])
      for (const [at, how] of (["after", "at the same time"] as const).entries()) {
        const key = newKey()
        const own = report(key, message, reporter === "signed in" ? bearing(one.accessToken) : [])
        const stolen = report(key, text, headers)
        const target = at % 2 === 0 ? bench.second : bench.first
        if (how === "after") {
          const first = await send(bench.first, own)
          compare(first, await send(target, stolen), await send(bench.first, own))
        } else {
          const [first, answer] = await Promise.all([send(bench.first, own), send(target, stolen)])
          compare(first, answer, await send(bench.first, own))
        }
        function compare(first: WireAnswer, answer: WireAnswer, again: WireAnswer) {
          const where = `${name}, ${how}, of a ${reporter} reporter`
          const said = verdictOf(answer)
          // Without a name, another text under the same key is the same caller's mistake.
          const wanted =
            reporter === "nameless" && headers?.length === 0 && text === other
              ? "409 idempotency_conflict"
              : verdict
          const raced =
            how === "at the same time" &&
            [verdictOf(first), said].sort().join() === ["200", wanted].sort().join()
          if (said !== wanted && !raced) broken.push(`${where}: ${said} instead of ${wanted}`)
          if (verdictOf(first) !== "200") return
          const { id } = JSON.parse(first.body)
          if (answer.body.includes(id) || answer.body.includes(victim))
            broken.push(`${where}: got the report of another`)
          const { id: repeated, replayed } =
            verdictOf(again) === "200" ? JSON.parse(again.body) : { id: "", replayed: "" }
          if (repeated !== id || replayed !== true)
            broken.push(`${where}: the repetition was ${verdictOf(again)} ${repeated}`)
        }
      }

  // IAM is away: a caller with the key and the very text is answered the report, but never the name.
  const key = newKey()
  const named = await send(bench.first, report(key, message, bearing(one.accessToken)))
  bench.world.iam.fail({ path: "/api/v1/oauth/introspect", fault: iamFaults.internalError() })
  const blind = await send(bench.first, report(key, message, bearing(two.accessToken)))
  if (!named.body.includes(victim) || blind.body.includes(victim))
    broken.push("an unverified reader got the reporter's name")
  const [row] = bench.query("SELECT reporter FROM reports WHERE id = ?", JSON.parse(named.body).id)
  if (row?.reporter !== `verified:${victim}`)
    broken.push(`an unverified reader changed the reporter to ${row?.reporter}`)
  return broken
}

export const keyAttack: ApartAttack = {
  name: "stolen idempotency keys",
  play: () =>
    withBench(async (bench) => {
      const broken: Array<string> = [...checkKeyedPaths(), ...(await playReports(bench))]
      for (const operation of Object.keys(preparations))
        for (const place of places)
          for (const moment of Object.keys(moments) as ReadonlyArray<keyof typeof moments>) {
            const found = await playScenario(bench, operation, moment, place)
            broken.push(...found.map((fault) => `${operation}, ${moment}, at ${place}: ${fault}`))
          }
      return broken
    })
}
