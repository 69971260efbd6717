/** The commands of a sequence: what each does, and what must follow at once. fast-check composes and shrinks them. */
import { FastCheck } from "effect"
import type { StoredSession } from "../../../client/stores/SessionStore.ts"
import { requests } from "../../world/Driver.ts"
import { type FaultName, faults, type PathName, pathNames, paths } from "../../world/Faults.ts"
import { derivedKey, type Name, names, type Resident, type Stage, textOf, tokensOf } from "./Stage.ts"

const { boolean, constantFrom, integer, record } = FastCheck

type Arbitraries<Facts> = { readonly [K in keyof Facts]: FastCheck.Arbitrary<Facts[K]> }
type Command = FastCheck.AsyncCommand<Stage, undefined>

/** A command, and how often it is chosen. Where `mayEnd`, a program may be without its session afterwards. */
const command = <Facts>(
  weight: number,
  says: string,
  facts: Arbitraries<Facts>,
  does: (stage: Stage, facts: Facts) => unknown,
  mayEnd = false
) => ({
  weight,
  arbitrary: (record(facts) as FastCheck.Arbitrary<Facts>).map((chosen): Command => {
    const text = `${says} ${JSON.stringify(chosen)}`
    return {
      check: () => true,
      run: (stage) => stage.play(text, () => does(stage, chosen), mayEnd),
      toString: () => text
    }
  })
})

const who = constantFrom(...names)

interface Acting {
  readonly stage: Stage
  readonly resident: Resident
  readonly stored: StoredSession | undefined
}

/** A command of one program. */
const byProgram = <Facts>(
  weight: number,
  says: string,
  facts: Arbitraries<Facts>,
  does: (acting: Acting, facts: Facts) => unknown,
  mayEnd = false
) =>
  command<{ readonly by: Name; readonly chosen: Facts }>(
    weight,
    says,
    { by: who, chosen: record(facts) as FastCheck.Arbitrary<Facts> },
    (stage, { by, chosen }) => {
      const resident = stage.resident(by)
      return does({ stage, resident, stored: stage.storedOf(resident) }, chosen)
    },
    mayEnd
  )

/** The same of a program that has a session. */
const bySession = <Facts>(
  weight: number,
  says: string,
  facts: Arbitraries<Facts>,
  does: (acting: Acting & { readonly stored: StoredSession }, facts: Facts) => unknown
) =>
  byProgram(weight, says, facts, ({ stored, ...acting }, chosen) =>
    stored === undefined ? "has no session" : does({ ...acting, stored }, chosen)
  )

const statuses = (answers: ReadonlyArray<{ readonly status: number }>): string =>
  answers.map(({ status }) => status).join(", ")

const minute = 60
const longLived = [28 * minute, 29.25 * minute, 29.25 * minute, 29.25 * minute, 31 * minute, 31 * minute]
const spans = [1, 5, minute, 9 * minute, 11 * minute, ...longLived, 3 * 24 * 60 * minute]

const iamAndTing = pathNames.filter(
  (name) => paths[name].upstream === "iam" || paths[name].upstream === "ting"
)
/** Faults that stay until they are mended, and those of one call. */
const outages: ReadonlyArray<FaultName> = [
  "refused",
  "lost before",
  "500 before",
  "503 before",
  "hang before",
  "page before"
]
const ofOneCall: ReadonlyArray<FaultName> = [
  "lost after",
  "500 after",
  "429 before",
  "hang after",
  "page after",
  "kill before",
  "kill after",
  "inactive"
]

const login = byProgram(
  5,
  "logs in with a token",
  { slt: constantFrom("new", "new", "same") },
  async ({ resident, stage }, { slt }) => {
    const known = resident.logins.get(stage.planeOf(resident))
    const presented = slt === "same" && known !== undefined ? known.slt : stage.mint(resident)
    return presented === undefined ? "has no organisation" : textOf(await stage.login(resident, presented))
  }
)

const me = byProgram(12, "asks who it is", {}, async ({ resident, stage }) =>
  textOf(await stage.me(resident))
)

const subscribe = byProgram(2, "subscribes", {}, async ({ resident, stage }) =>
  textOf(await stage.signed(resident, (program) => program.subscribe()))
)

/** That it is sent once is the oracle's. */
const ting = byProgram(4, "sends a ting", {}, async ({ resident, stage }) => {
  const sent = { type: "music.trigger.fired", key: `${resident.name}/${stage.newKey()}`, data: { n: 1 } }
  return textOf(await stage.signed(resident, (program) => program.ting(sent)))
})

const together = byProgram(
  6,
  "several callers ask at once",
  { callers: integer({ min: 2, max: 5 }) },
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

const logout = byProgram(
  3,
  "logs out",
  { forget: boolean() },
  async ({ resident, stage, stored }, { forget }) => {
    const { law } = stage
    // A refresh in flight may find that the pair was spent too long ago, and clear it: then nothing is left to revoke.
    const hadNone = stored === undefined || law.isLost(stored)
    const outcome = await stage.call(resident, (program) => program.logout({ forget }))
    if (outcome.ok && stage.storedOf(resident) !== undefined)
      law.breakWith(`${resident.name} logged out and still has its session`)
    if (!hadNone && outcome.ok && !forget && law.isLive(stored))
      law.breakWith(`${resident.name} logged out, and IAM honours its session`)
    return textOf(outcome)
  },
  true
)

/** The refresh of the stored session as the client would send it, by several callers at once over both servers. */
const sameRefresh = bySession(
  4,
  "several callers at once refresh the session, and keep nothing",
  { callers: integer({ min: 1, max: 4 }) },
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

const wrongPlane = bySession(
  2,
  "the tokens are sent to the other plane",
  {},
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

const wait = command(14, "time passes", { seconds: constantFrom(...spans) }, (stage, { seconds }) =>
  stage.world.time.jump(seconds * 1_000)
)

const revokeLogin = bySession(1, "the admin revokes the login", {}, ({ stage, stored }) => {
  stage.world.oracle.allowEnd(stored.refresh_token)
  const family = stage.law.familyOf(stored.refresh_token)
  if (family?.status === "active") family.status = "revoked"
})

const revokeAccess = bySession(5, "the access token ends early", {}, ({ resident, stage, stored }) => {
  const token = stage.stateOf(resident).accessTokens.get(stored.access_token)
  if (token !== undefined) token.revoked = true
})

const moveOrganisation = byProgram(
  2,
  "changes its organisations",
  { joins: boolean() },
  ({ resident, stage }, { joins }) => {
    const plane = stage.planeOf(resident)
    const all = [...stage.stateOf(resident).memberships.values()]
    for (const { org, status } of all.filter(({ actor }) => actor === resident.actor)) {
      if (joins && status === "removed") stage.controls.addMembership(plane, resident.actor, org)
      if (!joins && status === "active") stage.controls.removeMembership(plane, resident.actor, org)
    }
  }
)

const restart = byProgram(
  4,
  "is started again",
  { switches: boolean() },
  ({ resident, stage }, { switches }) => {
    if (switches) resident.isTesting = !resident.isTesting
    stage.restartProgram(resident)
  }
)

const killServer = command(
  3,
  "a server is killed",
  { server: integer({ min: 0, max: 1 }) },
  ({ world }, { server }) => world.instances.filter(({ isAlive }) => isAlive())[server]?.kill()
)

/** `lasts`: until it is mended. A false "inactive" is kept for the introspection of a token that was just issued. */
const fault = command(
  20,
  "plan a fault",
  {
    path: constantFrom<PathName | "any">("any", "any", "tokens", "introspect", "introspect", ...iamAndTing),
    after: integer({ min: 0, max: 6 }),
    name: constantFrom(...outages, ...outages, ...ofOneCall),
    lasts: integer({ min: 1, max: 5 }).map((number) => number === 5)
  },
  ({ law, world }, { after, lasts, name, path }) => {
    const isLasting = lasts && path !== "any" && outages.includes(name)
    if (name === "inactive")
      world.faults.plan({ path: "introspect", fault: faults.inactive, when: law.isCompleting })
    else
      world.faults.plan({
        path,
        fault: faults[name],
        ...(isLasting ? { times: Number.POSITIVE_INFINITY } : { after })
      })
  }
)

const mend = command(3, "all upstreams work again", {}, ({ world }) => world.faults.heal())

const settle = command(4, "all faults end, and each program tries again", {}, (stage) => stage.settle())

/** Any command, by its weight. */
export const anyCommand: FastCheck.Arbitrary<Command> = FastCheck.oneof(
  ...[login, me, subscribe, ting, together, logout],
  ...[sameRefresh, wrongPlane],
  ...[wait, revokeLogin, revokeAccess, moveOrganisation, restart, killServer],
  ...[fault, mend, settle]
)
