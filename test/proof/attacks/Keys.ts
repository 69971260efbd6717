/**
 * A second caller with the idempotency key of a first one, for every call that takes a key: at the same time, soon, and long after; at
 * another instance, and in another plane. No caller gets what belongs to another, and a conflict spends nothing.
 */
import { iamFaults } from "../../../sandbox/upstreams/Iam.ts"
import { faults } from "../../../sandbox/upstreams/Simulator.ts"
import type { InMemoryResponse } from "../../support/InMemoryServer.ts"
import {
  bearing,
  type Bench,
  type HeaderLines,
  type IdentityAttack,
  logIn,
  newKey,
  selecting,
  type Sent,
  sltOf,
  verdictOf
} from "./Bench.ts"

const victim = "si:deejay"
const thief = "c:ana"
const conflict = "409 idempotency_conflict"
const minute = 60_000

/** One caller's request, ready to be sent under any key. */
interface Party {
  readonly actor: string
  readonly credential: string
  readonly request: (key: HeaderLines) => Sent
}

const fields = { login: "slt", refresh: "refresh_token", logout: "token" } as const
type Operation = keyof typeof fields

const prepare = async (
  bench: Bench,
  operation: Operation,
  actor: string,
  secret?: string
): Promise<Party> => {
  const logsIn = operation === "login"
  const slt = secret === undefined ? sltOf(bench, actor) : actor
  const credential = logsIn ? slt : (await logIn(bench, actor, secret)).refreshToken
  const body = JSON.stringify({ [fields[operation]]: credential })
  const path = `/api/v1/auth/${operation}`
  return { actor, credential, request: (key) => ({ path, headers: [...key, ...selecting(secret)], body }) }
}

/** Milliseconds between the two, and what the repetition of the first one is answered afterwards. */
const moments = {
  "at the same time": { after: 0, repeated: /^20/ },
  "after 9 minutes": { after: 9 * minute, repeated: /^20/ },
  "after 11 minutes": { after: 11 * minute, repeated: /^409 idempotency_response_expired$/ },
  // Nothing is known of the key any more.
  "after 25 hours": { after: 1_500 * minute, repeated: /^20|^409 idempotency_conflict$|^401 / }
} as const

const tokensIn = ({ text }: InMemoryResponse): ReadonlyArray<string> =>
  [...text.matchAll(/"(?:access_token|refresh_token)":"([^"]+)"/g)].map(([, token = ""]) => token)

const playScenario = async (
  bench: Bench,
  operation: Operation,
  moment: keyof typeof moments,
  inTesting: boolean
): Promise<ReadonlyArray<string>> => {
  const secret = inTesting ? bench.world.seeded.environment.musicSecret : undefined
  const { after, repeated } = moments[moment]
  const success = operation === "logout" ? "204" : "200"
  const key = newKey()
  const broken: Array<string> = []
  const belongs = (answer: InMemoryResponse, own: Party, other: Party) => {
    if (answer.text.includes(other.actor)) broken.push(`${own.actor} got ${other.actor} of the other one`)
    for (const token of tokensIn(answer)) {
      const { actor } = bench.world.iam.controls.familyOf(token) ?? {}
      if (actor !== own.actor) broken.push(`${own.actor} got a session of ${actor}`)
    }
  }
  const together = after === 0
  const first = await prepare(bench, operation, victim)
  const early = together ? await prepare(bench, operation, thief, secret) : undefined
  if (together) bench.world.iam.fail({ method: "POST", path: /tokens$|revoke$/, fault: faults.delay(30) })
  const sentFirst = bench.first(first.request(key))
  if (!together) await sentFirst
  bench.clock.advance(after)
  const second = early ?? (await prepare(bench, operation, thief, secret))
  // In flight, executions are shared by an instance; afterwards, by all.
  const two = await (together ? bench.first : bench.second)(second.request(key))
  const one = await sentFirst
  bench.world.iam.clearFaults()
  belongs(one, first, second)
  belongs(two, second, first)
  const said = [one, two].map(verdictOf)
  const isFree = inTesting || after > 24 * 60 * minute
  const wanted = [success, isFree ? success : conflict]
  // Of two at the same time either may come first.
  if (said.join() !== wanted.join() && !(together && said.toReversed().join() === wanted.join()))
    broken.push(`${said.join(" and ")} instead of ${wanted.join(" and ")}`)
  for (const [at, party] of [first, second].entries()) {
    if (said[at] !== conflict) continue
    // A conflict spends nothing: the same credential works under a key of its own.
    const fresh = await bench.first(party.request(newKey()))
    belongs(fresh, party, party === first ? second : first)
    if (verdictOf(fresh) !== success) broken.push(`the conflict of ${party.actor} spent something`)
  }
  if (said[0] !== success) return broken
  for (const instance of [bench.first, bench.second]) {
    const again = await instance(first.request(key))
    belongs(again, first, second)
    // A logout has no answer that could expire.
    if (operation !== "logout" && !repeated.test(verdictOf(again)))
      broken.push(`the repetition was ${verdictOf(again)}`)
    if (after < 10 * minute && tokensIn(again).join() !== tokensIn(one).join())
      broken.push("the repetition got another session than the first answer")
  }
  return broken
}

const message = "The player stops after a seek near the end of a track."

/** Reports keep their keys in the database; the reporter is a part of who may repeat one. */
const playReports = async (bench: Bench): Promise<ReadonlyArray<string>> => {
  const broken: Array<string> = []
  const { musicSecret } = bench.world.seeded.environment
  const own = bearing((await logIn(bench, victim)).accessToken)
  const other = bearing((await logIn(bench, thief)).accessToken)
  const report = (key: HeaderLines, headers: HeaderLines, text = message): Sent => ({
    path: "/api/v1/reports",
    headers: [...key, ...headers],
    body: JSON.stringify({ message: text })
  })
  const thieves: ReadonlyArray<readonly [name: string, headers: HeaderLines, verdict: string]> = [
    ["a signed-in thief", other, "200"],
    ["a thief with a dead token", bearing(`oat_${"x".repeat(43)}`), "401 unauthenticated"],
    ["a nameless thief in a testing plane", selecting(musicSecret), "200"],
    ["a nameless thief", [], "200"]
  ]
  for (const [reporter, headers] of [["signed-in", own] as const, ["nameless", []] as const])
    for (const [name, theirs, verdict] of thieves)
      for (const text of [message, `${message} Also after a pause.`]) {
        // Nameless callers with one key and text are one caller, and another text is that one's mistake.
        const isSame = headers.length + theirs.length === 0
        if (isSame && text === message) continue
        const key = newKey()
        const first = await bench.first(report(key, headers))
        const stolen = await bench.second(report(key, theirs, text))
        const again = await bench.first(report(key, headers))
        const { id } = JSON.parse(first.text)
        const { id: repeated, replayed } = JSON.parse(again.text)
        if (
          verdictOf(stolen) !== (isSame ? conflict : verdict) ||
          stolen.text.includes(id) ||
          stolen.text.includes(victim)
        )
          broken.push(`${name} of a ${reporter} report got ${verdictOf(stolen)} ${stolen.text}`)
        if (repeated !== id || replayed !== true) broken.push(`the repetition was ${again.text}`)
      }

  // IAM is away: a caller with the key and the very text is answered the report, but never the name.
  const key = newKey()
  const named = await bench.first(report(key, own))
  bench.world.iam.fail({ path: "/api/v1/oauth/introspect", fault: iamFaults.internalError() })
  const blind = await bench.first(report(key, other))
  bench.world.iam.clearFaults()
  const [row] = bench.query("SELECT reporter FROM reports WHERE id = ?", JSON.parse(named.text).id)
  if (!named.text.includes(victim) || blind.text.includes(victim) || row?.reporter !== `verified:${victim}`)
    broken.push(`an unverified reader got ${blind.text}, and left ${row?.reporter}`)
  return broken
}

export const keyAttack: IdentityAttack = {
  name: "stolen idempotency keys",
  play: async (bench) => {
    const broken = [...(await playReports(bench))]
    for (const operation of ["login", "refresh", "logout"] as const)
      for (const inTesting of [false, true])
        for (const moment of Object.keys(moments) as ReadonlyArray<keyof typeof moments>) {
          const found = await playScenario(bench, operation, moment, inTesting)
          const where = `${operation}, ${moment}${inTesting ? ", at a testing plane" : ""}`
          broken.push(...found.map((fault) => `${where}: ${fault}`))
        }
    return broken
  }
}
