/** The commands of a sequence: what each does, and what must follow at once. fast-check composes and shrinks them. */
import * as FastCheck from "effect/FastCheck"
import type { StoredSession } from "../../../client/stores/SessionStore.ts"
import { requests } from "../../world/Driver.ts"
import { type FaultName, faults, type PathName } from "../../world/Faults.ts"
import { derivedKey } from "./OtherLanguage.ts"
import { clientFaults } from "./Programs.ts"
import { type Name, names, type Resident, type Stage, textOf, tokensOf } from "./Stage.ts"

const { boolean, constantFrom, integer, record } = FastCheck

type Arbitraries<Facts> = { readonly [K in keyof Facts]: FastCheck.Arbitrary<Facts[K]> }
type Command = FastCheck.AsyncCommand<Stage, undefined>

/** A command, and how often it is chosen. Where `mayEnd`, a program may be without its session afterwards. */
const command = <Facts>(
  weight: number,
  facts: Arbitraries<Facts>,
  says: (facts: Facts) => string,
  does: (stage: Stage, facts: Facts) => unknown,
  mayEnd = false
) => ({
  weight,
  arbitrary: (record(facts) as FastCheck.Arbitrary<Facts>).map(
    (chosen): Command => ({
      check: () => true,
      run: (stage) => stage.play(says(chosen), () => does(stage, chosen), mayEnd),
      toString: () => says(chosen)
    })
  )
})

interface Acting {
  readonly stage: Stage
  readonly resident: Resident
  readonly stored: StoredSession | undefined
}

const who = constantFrom(...names)
type By<Facts> = Facts & { readonly by: Name }

/** A command of one program. */
const byProgram = <Facts>(
  weight: number,
  facts: Arbitraries<Facts>,
  says: (facts: By<Facts>) => string,
  does: (acting: Acting, facts: By<Facts>) => unknown,
  mayEnd = false
) =>
  command<By<Facts>>(
    weight,
    { ...facts, by: who } as Arbitraries<By<Facts>>,
    says,
    (stage, chosen) => {
      const resident = stage.resident(chosen.by)
      return does({ stage, resident, stored: stage.storedOf(resident) }, chosen)
    },
    mayEnd
  )

/** The same of a program that has a session. */
const bySession = <Facts>(
  weight: number,
  facts: Arbitraries<Facts>,
  says: (facts: By<Facts>) => string,
  does: (acting: Acting & { readonly stored: StoredSession }, facts: By<Facts>) => unknown
) =>
  byProgram(weight, facts, says, ({ stored, ...acting }, chosen) =>
    stored === undefined ? "has no session" : does({ ...acting, stored }, chosen)
  )

const statuses = (answers: ReadonlyArray<{ readonly status: number }>): string =>
  answers.map(({ status }) => status).join(", ")

const minute = 60
const longLived = [28 * minute, 29.25 * minute, 29.25 * minute, 29.25 * minute, 31 * minute, 31 * minute]
const spans = [1, 5, minute, 9 * minute, 11 * minute, ...longLived, 3 * 24 * 60 * minute]

const iamAndTing = [
  "tokens",
  "introspect",
  "revoke",
  "catalogue",
  "context",
  "proof",
  "registration",
  "ting"
] as const satisfies ReadonlyArray<PathName>
/** Faults that stay until they are mended. */
const outages = [
  "refused",
  "lost before",
  "500 before",
  "503 before",
  "hang before",
  "page before"
] as const satisfies ReadonlyArray<FaultName>
const onceOnly = [
  "lost after",
  "500 after",
  "429 before",
  "hang after",
  "page after",
  "kill before",
  "kill after",
  "inactive"
] as const satisfies ReadonlyArray<FaultName>

const login = byProgram<{ readonly slt: "new" | "same" | "public id" }>(
  5,
  { slt: constantFrom("new", "new", "same", "public id") },
  ({ by, slt }) => `${by} logs in with a ${slt} token`,
  async ({ resident, stage }, { slt }) => {
    const known = resident.logins.get(stage.planeOf(resident))
    if (slt === "same" && known !== undefined)
      return textOf(await stage.login(resident, known.slt, known.key))
    if (slt === "public id" && resident.isTesting)
      return textOf(await stage.login(resident, resident.actor, stage.newKey()))
    const minted = stage.mint(resident)
    return minted === undefined ? "has no organisation" : textOf(await stage.login(resident, minted))
  }
)

const me = byProgram(
  12,
  {},
  ({ by }) => `${by} asks who it is`,
  async ({ resident, stage }) => textOf(await stage.me(resident))
)

const session = byProgram(
  1,
  {},
  ({ by }) => `${by} reads its session`,
  async ({ resident, stage }) => {
    const outcome = await stage.call(resident, ({ session: read }) => read())
    const found = outcome?.ok === true ? outcome.value?.actor.public_id : undefined
    if (found !== undefined && found !== resident.actor)
      stage.law.breakWith(`${resident.name} finds the session of another actor`)
    return textOf(outcome)
  }
)

const subscribe = byProgram(
  2,
  {},
  ({ by }) => `${by} subscribes`,
  async ({ resident, stage }) => textOf(await stage.signed(resident, (caller) => caller.subscribe()))
)

const ting = byProgram<{ readonly again: boolean }>(
  4,
  { again: boolean() },
  ({ again, by }) => `${by} sends ${again ? "the same ting again" : "a ting"}`,
  async ({ resident, stage }, { again }) => {
    const plane = stage.planeOf(resident)
    if (!again || resident.ting === undefined) resident.ting = `${resident.name}/${stage.newKey()}`
    const key = resident.ting
    const full = `${resident.actor}/${key}`
    stage.tings.set(`${plane} ${full}`, resident.actor)
    const outcome = await stage.signed(resident, (caller) => caller.ting(key))
    const { accepted } = stage.world.upstreams.ting.controls
    const count = accepted(plane).filter((one) => one.key === full).length
    if (count > 1) stage.law.breakWith(`the ting ${key} was accepted ${count} times`)
    if (outcome?.ok === true && count === 0) stage.law.breakWith(`the ting ${key} is lost`)
    return textOf(outcome)
  }
)

const together = byProgram<{ readonly callers: number }>(
  6,
  { callers: integer({ min: 2, max: 5 }) },
  ({ by, callers }) => `${callers} callers of ${by} ask at once`,
  async ({ resident, stage, stored }, { callers }) => {
    const others = stage.residents.filter(
      ({ isTesting, machine }) => machine === resident.machine && isTesting === resident.isTesting
    )
    const before = stage.law.rotations()
    const outcomes = await Promise.all(
      Array.from({ length: callers }, (_, index) => stage.me(others[index % others.length] ?? resident))
    )
    const most = stored !== undefined && stage.law.familyOf(stored.refresh_token) !== undefined ? 1 : 0
    const rotations = stage.law.rotations() - before
    if (rotations > most) stage.law.breakWith(`${callers} callers rotated the session ${rotations} times`)
    return outcomes.map(textOf).join(", ")
  }
)

const logout = byProgram<{ readonly forget: boolean }>(
  3,
  { forget: boolean() },
  ({ by, forget }) => `${by} ${forget ? "forgets its session" : "logs out"}`,
  async ({ resident, stage, stored }, { forget }) => {
    const { law } = stage
    // A refresh in flight may find that the pair was spent too long ago, and clear it: then nothing is left to revoke.
    const hadNone = stored === undefined || law.isLost(stored)
    const outcome = await stage.call(resident, (caller) => caller.logout(forget))
    if (outcome?.ok === true && stage.storedOf(resident) !== undefined)
      law.breakWith(`${resident.name} logged out and still has its session`)
    if (!hadNone && outcome?.ok === true && !forget && law.isLive(stored))
      law.breakWith(`${resident.name} logged out, and IAM honours its session`)
    return textOf(outcome)
  },
  true
)

/** The refresh of the stored session as the client would send it, by several callers at once over both servers. */
const sameRefresh = bySession<{ readonly callers: number }>(
  4,
  { callers: integer({ min: 1, max: 4 }) },
  ({ by, callers }) => `${callers} callers at once refresh the session of ${by}, and keep nothing`,
  async ({ resident, stage, stored }, { callers }) => {
    const { law } = stage
    const answers = await stage.send(
      Array.from({ length: callers }, () => stage.ownRefresh(resident, stored))
    )
    const pairs = new Set(answers.flatMap((answer) => tokensOf(answer)?.refresh_token ?? []))
    if (pairs.size > 1) law.breakWith(`one refresh of ${resident.name} gave ${pairs.size} pairs`)
    const isHonoured = law.isLive(stored) && law.excuseFor(stored) === undefined
    if (isHonoured && answers.some(({ status }) => status === 401))
      law.breakWith(`a refresh of ${resident.name} is refused, while IAM honours its session`)
    return statuses(answers)
  }
)

const allRefresh = command(
  2,
  {},
  () => "all sessions are refreshed at once under their own keys, and nothing is kept",
  async (stage) => {
    // Twice each: once through each server.
    const sent = stage.residents.flatMap((resident) => {
      const stored = resident.name === "B" ? undefined : stage.storedOf(resident)
      return stored === undefined
        ? []
        : [stage.ownRefresh(resident, stored), stage.ownRefresh(resident, stored)]
    })
    return statuses(await stage.send(sent))
  }
)

/** An attacker, or a broken client: another key than the derived one. */
const stolenRefresh = bySession<{ readonly token: "stored" | "spent" }>(
  1,
  { token: constantFrom("stored", "spent") },
  ({ by, token }) => `an attacker refreshes with the ${token} token of ${by} under another key`,
  async ({ resident, stage, stored }, { token }) => {
    const family = stage.law.familyOf(stored.refresh_token)
    const spent = [...stage.stateOf(resident).refreshTokens].find(
      ([, one]) => one.consumed && one.family === family
    )
    const stolen = token === "spent" ? spent?.[0] : stored.refresh_token
    if (stolen === undefined) return "no token is spent"
    stage.law.allowAttack(stolen)
    return statuses(await stage.send([requests.refresh(stolen, stage.newKey(), stage.secretOf(resident))]))
  }
)

/** The refresh token of one program under a key that another one has used. */
const crossedRefresh = bySession<{ readonly other: Name }>(
  2,
  { other: who },
  ({ by, other }) => `the refresh token of ${by} is sent under a key of ${other}`,
  async ({ resident, stage, stored }, facts) => {
    const { law } = stage
    const other = stage.resident(facts.other)
    const theirs = stage.storedOf(other)
    if (theirs === undefined || stored === theirs) return "there are no two sessions"
    const key = derivedKey("refresh", theirs.refresh_token)
    law.allowRefusal(theirs.refresh_token)
    // Where the key is free after all, this is a refresh under a wrong key.
    law.allowAttack(stored.refresh_token)
    law.allowAttack(theirs.refresh_token)
    const their = { from: other, token: theirs.refresh_token }
    const own = { from: resident, token: stored.refresh_token }
    // Twice each, so that both servers have both at once.
    const senders = [their, their, own, own]
    const answers = await stage.send(
      senders.map(({ from, token }) => requests.refresh(token, key, stage.secretOf(from)))
    )
    for (const [index, { from, token }] of senders.entries()) {
      const given = tokensOf(answers[index])
      if (given !== undefined && law.familyOf(given.refresh_token) !== law.familyOf(token))
        law.breakWith(`a crossed key gave ${from.name} the session of another`)
    }
    return statuses(answers)
  }
)

/** The key of another program's login with a short-lived token of one's own, or its spent token under a key of one's own. */
const crossedLogin = byProgram<{ readonly other: Name; readonly what: "key" | "slt" }>(
  2,
  { other: who, what: constantFrom("key", "slt") },
  ({ by, other, what }) =>
    what === "key"
      ? `a new short-lived token of ${by} is sent under the login key of ${other}`
      : `the spent short-lived token of ${other} is sent under a key of ${by}`,
  async ({ resident, stage }, { by, other, what }) => {
    const theirs = stage.resident(other).logins.get(stage.planeOf(resident))
    if (theirs === undefined || other === by) return "there are no two logins"
    if (what === "slt" && stage.stateOf(resident).slts.get(theirs.slt)?.spent !== true)
      return "the token is not spent"
    const slt = what === "slt" ? theirs.slt : stage.mint(resident)
    if (slt === undefined) return "has no organisation"
    const key = what === "slt" ? stage.newKey() : (theirs.key ?? derivedKey("login", theirs.slt))
    const answers = await stage.send([requests.login(slt, key, stage.secretOf(resident))])
    const given = tokensOf(answers[0])
    if (given !== undefined && (what === "slt" || given.actor.public_id !== resident.actor))
      stage.law.breakWith(`a crossed login gave the session of ${other}`)
    return statuses(answers)
  }
)

const wrongPlane = bySession(
  2,
  {},
  ({ by }) => `the tokens of ${by} are sent to the other plane`,
  async ({ resident, stage, stored: { refresh_token } }) => {
    const key = derivedKey("refresh", refresh_token)
    const secret = stage.secretOf(resident, true)
    const answers = await stage.send([
      requests.refresh(refresh_token, key, secret),
      requests.logout(refresh_token, key, secret)
    ])
    if (answers[0]?.status === 200)
      stage.law.breakWith(`a token of ${resident.name} works in the other plane`)
    return statuses(answers)
  }
)

const wait = command<{ readonly seconds: number }>(
  14,
  { seconds: constantFrom(...spans) },
  ({ seconds }) => (seconds < minute ? `${seconds} s pass` : `${seconds / minute} minutes pass`),
  (stage, { seconds }) => stage.world.time.jump(seconds * 1_000)
)

const revokeLogin = bySession(
  1,
  {},
  ({ by }) => `the admin revokes the login of ${by}`,
  ({ stage, stored }) => {
    stage.world.oracle.allowEnd(stored.refresh_token)
    const family = stage.law.familyOf(stored.refresh_token)
    if (family?.status === "active") family.status = "revoked"
  }
)

const revokeAccess = bySession(
  5,
  {},
  ({ by }) => `the access token of ${by} ends early`,
  ({ resident, stage, stored }) => {
    const token = stage.stateOf(resident).accessTokens.get(stored.access_token)
    if (token !== undefined) token.revoked = true
  }
)

const moveOrganisation = byProgram<{ readonly joins: boolean }>(
  2,
  { joins: boolean() },
  ({ by, joins }) => `${by} ${joins ? "is in its organisations again" : "leaves its organisations"}`,
  ({ resident, stage }, { joins }) => {
    const plane = stage.planeOf(resident)
    const all = [...stage.stateOf(resident).memberships.values()]
    for (const { org, status } of all.filter(({ actor }) => actor === resident.actor)) {
      if (joins && status === "removed") stage.controls.addMembership(plane, resident.actor, org)
      if (!joins && status === "active") stage.controls.removeMembership(plane, resident.actor, org)
    }
  }
)

const restart = byProgram<{ readonly switches: boolean }>(
  4,
  { switches: boolean() },
  ({ by, switches }) => (switches ? `${by} starts again in the other plane` : `program ${by} is killed`),
  ({ resident, stage }, { switches }) => {
    if (switches) resident.isTesting = !resident.isTesting
    stage.restartProgram(resident)
  }
)

const killServer = command<{ readonly server: number }>(
  3,
  { server: integer({ min: 0, max: 1 }) },
  ({ server }) => `server ${server} is killed`,
  ({ world }, { server }) => world.instances.filter(({ isAlive }) => isAlive())[server]?.kill()
)

const fault = command<{
  readonly path: PathName | "any"
  readonly after: number
  readonly name: FaultName
}>(
  18,
  {
    path: constantFrom("any", "any", "tokens", "introspect", "introspect", ...iamAndTing),
    after: integer({ min: 0, max: 6 }),
    name: constantFrom(...outages, ...onceOnly)
  },
  ({ after, name, path }) => `plan: ${name}, at call ${after + 1} from now to ${path}`,
  ({ law, world }, { after, name, path }) =>
    world.faults.plan(
      // A false "inactive" is kept for the introspection of a token that was just issued.
      name === "inactive"
        ? { path: "introspect", fault: faults.inactive, when: law.isCompleting }
        : { path, after, fault: faults[name] }
    )
)

const outage = command<{ readonly path: PathName; readonly name: FaultName }>(
  3,
  { path: constantFrom(...iamAndTing, "introspect"), name: constantFrom(...outages) },
  ({ name, path }) => `${path} fails from now on: ${name}`,
  ({ world }, { name, path }) =>
    world.faults.plan({ path, times: Number.POSITIVE_INFINITY, fault: faults[name] })
)

const mend = command(
  3,
  {},
  () => "all upstreams work again",
  ({ world }) => world.faults.heal()
)

const clientFault = byProgram<{ readonly after: number; readonly name: (typeof clientFaults)[number] }>(
  8,
  { after: integer({ min: 0, max: 2 }), name: constantFrom(...clientFaults) },
  ({ after, by, name }) => `plan for ${by}: ${name}, after ${after} others`,
  ({ resident }, { after, name }) => resident.program.plan(name, after)
)

const settle = command(
  4,
  {},
  () => "all faults end, and each program tries again",
  (stage) => stage.settle()
)

/** Any command, by its weight. */
export const anyCommand: FastCheck.Arbitrary<Command> = FastCheck.oneof(
  ...[login, me, session, subscribe, ting, together, logout],
  ...[sameRefresh, allRefresh, stolenRefresh, crossedRefresh, crossedLogin, wrongPlane],
  ...[wait, revokeLogin, revokeAccess, moveOrganisation, restart, killServer],
  ...[fault, outage, mend, clientFault, settle]
)
