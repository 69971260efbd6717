/** Plays one sequence and checks the law after each command. */
import { copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import { openDatabase } from "../../../src/layers/store/sqlite/SqliteStore.ts"
import type { StoredSession } from "../../../client/stores/SessionStore.ts"
import type { InMemoryResponse } from "../../support/InMemoryServer.ts"
import { production } from "../../../sandbox/upstreams/Iam.ts"
import { type Command, describe, type Sequence } from "./Commands.ts"
import type { Law } from "./Law.ts"
import { derivedKey } from "./OtherLanguage.ts"
import { Killed, type Outcome } from "./Programs.ts"
import { makeWorld, type Resident, type World } from "./World.ts"

export interface Figures {
  commands: number
  upstreamCalls: number
  faults: number
  kills: number
  requests: number
  sessions: number
  rotations: number
}

export interface Played {
  readonly story: ReadonlyArray<string>
  readonly broken: ReadonlyArray<string>
  readonly figures: Figures
}

/** Attempts of a program once everything works, and milliseconds between them: more than a minute, the longest pause of IAM's budget. */
const settling = { attempts: 10, pause: 10_000 } as const
/** Milliseconds: the deadline of a call, and what it may take beyond. */
const longestCall = 31_000

const randomKey = (text: string) => createHash("sha256").update(text).digest("hex")

/** No process outlives its machine here, so the database needs no disk. */
const memory = "/dev/shm"

/** A folder with a database of this version's schema, to be copied for each sequence. */
export const makeTemplate = async (): Promise<{ readonly folder: string; readonly remove: () => void }> => {
  const folder = mkdtempSync(join(existsSync(memory) ? memory : tmpdir(), "music-model-"))
  await Effect.runPromise(Effect.scoped(Effect.asVoid(openDatabase(join(folder, "template.sqlite")))))
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) }
}

const isOver = (outcome: Outcome<unknown>) => !outcome.ok && outcome.code === "logged_out"

/** Without an organisation a session cannot be used, but it is not lost. */
const isLost = (excuse: ReturnType<Law["excuseFor"]>) =>
  excuse !== undefined && excuse !== "withoutOrganisation"

const textOf = (outcome: Outcome<unknown> | undefined): string =>
  outcome === undefined
    ? "killed meanwhile"
    : outcome.ok
      ? "ok"
      : `${outcome.code}${outcome.reason === undefined ? "" : ` (${outcome.reason})`}`

class Player {
  readonly story: Array<string> = []
  readonly tings = new Map<string, { readonly actor: string; readonly plane: string }>()
  private readonly world: World
  private keys = 0
  constructor(world: World) {
    this.world = world
  }

  private tell(line: string): void {
    this.story.push(line)
  }

  /** Runs a call of a program until it ends or the program dies; undefined then. */
  private async call<A>(resident: Resident, run: () => Promise<Outcome<A>>): Promise<Outcome<A> | undefined> {
    const { law, time } = this.world
    const { program } = resident
    const began = time.now()
    try {
      const outcome = await time.complete(Promise.race([run(), program.killed]))
      if (resident.name !== "D" && time.now() - began > longestCall)
        law.breakWith(`a call of ${resident.name} lasted ${time.now() - began} ms`)
      if (!outcome.ok && outcome.code === "client_defect") law.breakWith("a defect of the client")
      return outcome
    } catch (error) {
      if (!(error instanceof Killed)) throw error
      this.world.restartProgram(resident)
      return undefined
    }
  }

  /** A request of a caller that is no program of the model. */
  private raw(path: string, body: unknown, key: string, resident: Resident, isTesting = resident.isTesting) {
    return this.world
      .reach("198.51.100.7")({
        path: `/api/v1/auth/${path}`,
        headers: {
          "content-type": "application/json",
          "idempotency-key": key,
          ...(isTesting ? { "x-testing-environment-key": this.world.testing.musicSecret } : {})
        },
        body: JSON.stringify(body)
      })
      .catch((): InMemoryResponse => ({ status: 0, headers: {}, text: "" }))
  }

  /** The refresh of a session as its client sends it. */
  private refresh(resident: Resident, { refresh_token }: StoredSession) {
    this.world.law.allowRefusal(refresh_token)
    return this.raw("refresh", { refresh_token }, derivedKey("refresh", refresh_token), resident)
  }

  private tokensOf({ status, text }: InMemoryResponse): StoredSession | undefined {
    return status === 200 ? (JSON.parse(text) as StoredSession) : undefined
  }

  private checkMe(resident: Resident, outcome: Outcome<unknown> | undefined): void {
    if (outcome?.ok !== true) return
    const { law } = this.world
    const me = outcome.value as {
      actor: { public_id: string }
      session_id: string
      testing_environment_id: string | null
    }
    const holder = this.world.holderOf(resident)
    if (me.actor.public_id !== resident.actor)
      law.breakWith(`${resident.name} is answered as ${me.actor.public_id}`)
    if (!holder.sessions.has(me.session_id)) law.breakWith(`${resident.name} uses a session of another login`)
    if ((me.testing_environment_id ?? production) !== holder.plane)
      law.breakWith(`${resident.name} is answered from another plane`)
  }

  /** A session that IAM still honours may not be called over. */
  private checkOutcome(
    resident: Resident,
    before: StoredSession | undefined,
    outcome: Outcome<unknown> | undefined
  ) {
    const { law } = this.world
    if (outcome === undefined || before === undefined || !isOver(outcome)) return
    const excuse = law.excuseFor(before)
    this.tell(`    the session of ${resident.name} is over${excuse === undefined ? "" : `: ${excuse}`}`)
    if (law.isLive(before) && !isLost(excuse))
      law.breakWith(`${resident.name} is logged out: ${textOf(outcome)}, while IAM honours its session`)
  }

  private async login(resident: Resident, slt: string, key?: string) {
    const { plane } = this.world.holderOf(resident)
    const known = resident.logins.get(plane)
    const entry = known?.slt === slt && known.key === key ? known : { slt, key, done: false }
    resident.logins.set(plane, entry)
    const outcome = await this.call(resident, () => resident.program.caller.login(slt, key))
    if (outcome?.ok === true) entry.done = true
    this.noteSessions(resident)
    return outcome
  }

  /** A login by public id makes its parent session itself. */
  private noteSessions(resident: Resident): void {
    const holder = this.world.holderOf(resident)
    const entry = resident.logins.get(holder.plane)
    const { families, slts } = this.world.upstreams.iam.controls.plane(holder.plane)
    if (entry === undefined) return
    const minted = slts.get(entry.slt)
    if (minted !== undefined) holder.sessions.add(minted.session.id)
    else
      for (const family of families.values())
        if (family.actor === resident.actor && !this.isOfSlt(family.session.id))
          holder.sessions.add(family.session.id)
  }

  private isOfSlt(session: string): boolean {
    return this.world.residents.some((other) =>
      [...this.world.upstreams.iam.controls.plane(this.world.planeOf(other)).slts.values()].some(
        (slt) => slt.session.id === session
      )
    )
  }

  private isMember(resident: Resident): boolean {
    const { memberships } = this.world.upstreams.iam.controls.plane(this.world.planeOf(resident))
    return [...memberships.values()].some(
      ({ actor, status }) => actor === resident.actor && status === "active"
    )
  }

  /** A short-lived token; none without an organisation. */
  private mint(resident: Resident): string | undefined {
    if (!this.isMember(resident)) return undefined
    const { controls } = this.world.upstreams.iam
    return controls.mintSlt(this.world.planeOf(resident), { appId: "music", actor: resident.actor })
  }

  private async me(resident: Resident) {
    const before = this.world.storedOf(resident)
    const outcome = await this.call(resident, () => resident.program.caller.me())
    this.checkMe(resident, outcome)
    this.checkOutcome(resident, before, outcome)
    return outcome
  }

  private async play(command: Command): Promise<string | undefined> {
    const { law, plan, time, upstreams } = this.world
    const { controls } = upstreams.iam
    const resident = "who" in command ? this.world.resident(command.who) : undefined
    const stored = resident === undefined ? undefined : this.world.storedOf(resident)
    if (resident !== undefined)
      switch (command.do) {
        case "login": {
          const { plane } = this.world.holderOf(resident)
          const known = resident.logins.get(plane)
          if (command.slt === "same" && known !== undefined)
            return textOf(await this.login(resident, known.slt, known.key))
          if (command.slt === "public id" && resident.isTesting)
            return textOf(await this.login(resident, resident.actor, randomKey(`login ${++this.keys}`)))
          const slt = this.mint(resident)
          return slt === undefined ? "has no organisation" : textOf(await this.login(resident, slt))
        }
        case "me":
          return textOf(await this.me(resident))
        case "session": {
          const outcome = await this.call(resident, () => resident.program.caller.session())
          if (
            outcome?.ok === true &&
            outcome.value !== undefined &&
            outcome.value.actor.public_id !== resident.actor
          )
            law.breakWith(`${resident.name} finds the session of another actor`)
          return textOf(outcome)
        }
        case "subscribe": {
          const outcome = await this.call(resident, () => resident.program.caller.subscribe())
          this.checkOutcome(resident, stored, outcome)
          return textOf(outcome)
        }
        case "ting": {
          const { plane } = this.world.holderOf(resident)
          if (!command.again || resident.ting === undefined) resident.ting = `${resident.name}/${++this.keys}`
          const key = resident.ting
          this.tings.set(`${plane} ${resident.actor}/${key}`, { actor: resident.actor, plane })
          const outcome = await this.call(resident, () =>
            resident.program.caller.ting("music.trigger.fired", key)
          )
          this.checkOutcome(resident, stored, outcome)
          const accepted = upstreams.ting.controls
            .accepted(plane)
            .filter((ting) => ting.key === `${resident.actor}/${key}`)
          if (accepted.length > 1) law.breakWith(`the ting ${key} was accepted ${accepted.length} times`)
          if (outcome?.ok === true && accepted.length === 0) law.breakWith(`the ting ${key} is lost`)
          return textOf(outcome)
        }
        case "together": {
          const others = this.world.residents.filter(
            ({ isTesting, machine }) => machine === resident.machine && isTesting === resident.isTesting
          )
          const before = law.rotations()
          const outcomes = await Promise.all(
            Array.from({ length: command.callers }, (_, index) => {
              const caller = others[index % others.length] ?? resident
              return this.me(caller)
            })
          )
          const most = stored !== undefined && controls.familyOf(stored.refresh_token) !== undefined ? 1 : 0
          if (law.rotations() - before > most)
            law.breakWith(`${command.callers} callers rotated the session ${law.rotations() - before} times`)
          return outcomes.map(textOf).join(", ")
        }
        case "logout": {
          if (stored !== undefined) law.allowEnd(stored.refresh_token)
          // A refresh in flight may find that the pair was spent too long ago, and clear it: then nothing is left to revoke.
          const lost = stored === undefined || isLost(law.excuseFor(stored))
          const outcome = await this.call(resident, () => resident.program.caller.logout(command.forget))
          if (outcome?.ok === true && this.world.storedOf(resident) !== undefined)
            law.breakWith(`${resident.name} logged out and still has its session`)
          if (!lost && outcome?.ok === true && !command.forget && law.isLive(stored))
            law.breakWith(`${resident.name} logged out, and IAM honours its session`)
          return textOf(outcome)
        }
        case "same refresh": {
          if (stored === undefined) return "has no session"
          const answers = await time.complete(
            Promise.all(Array.from({ length: command.callers }, () => this.refresh(resident, stored)))
          )
          const pairs = new Set(answers.flatMap((answer) => this.tokensOf(answer)?.refresh_token ?? []))
          if (pairs.size > 1) law.breakWith(`one refresh of ${resident.name} gave ${pairs.size} pairs`)
          if (
            law.isLive(stored) &&
            law.excuseFor(stored) === undefined &&
            answers.some(({ status }) => status === 401)
          )
            law.breakWith(`a refresh of ${resident.name} is refused, while IAM honours its session`)
          return answers.map(({ status }) => status).join(", ")
        }
        case "stolen refresh": {
          if (stored === undefined) return "has no session"
          const spent = [...controls.plane(this.world.planeOf(resident)).refreshTokens].find(
            ([, token]) => token.consumed && token.family === controls.familyOf(stored.refresh_token)
          )
          const token = command.token === "spent" ? spent?.[0] : stored.refresh_token
          if (token === undefined) return "no token is spent"
          law.allowAttack(token)
          const answer = await time.complete(
            this.raw("refresh", { refresh_token: token }, randomKey(`stolen ${++this.keys}`), resident)
          )
          return String(answer.status)
        }
        case "crossed refresh": {
          const other = this.world.resident(command.other)
          const theirs = this.world.storedOf(other)
          if (stored === undefined || theirs === undefined || stored === theirs)
            return "there are no two sessions"
          const key = derivedKey("refresh", theirs.refresh_token)
          law.allowRefusal(theirs.refresh_token)
          // Where the key is free after all, this is a refresh under a wrong key.
          law.allowAttack(stored.refresh_token)
          law.allowAttack(theirs.refresh_token)
          // Twice each, so that both servers have both at once.
          const senders = [
            [other, theirs],
            [other, theirs],
            [resident, stored],
            [resident, stored]
          ] as const
          const answers = await time.complete(
            Promise.all(
              senders.map(([sender, { refresh_token }]) =>
                this.raw("refresh", { refresh_token }, key, sender)
              )
            )
          )
          for (const [index, [sender, { refresh_token }]] of senders.entries()) {
            const given = answers[index] === undefined ? undefined : this.tokensOf(answers[index])
            if (
              given !== undefined &&
              controls.familyOf(given.refresh_token) !== controls.familyOf(refresh_token)
            )
              law.breakWith(`a crossed key gave ${sender.name} the session of another`)
          }
          return answers.map(({ status }) => status).join(", ")
        }
        case "crossed login": {
          const other = this.world.resident(command.other)
          const theirs = other.logins.get(this.world.planeOf(resident))
          if (theirs === undefined || other === resident) return "there are no two logins"
          const spent = controls.plane(this.world.planeOf(resident)).slts.get(theirs.slt)?.spent === true
          if (command.what === "slt" && !spent) return "the token is not spent"
          const slt = command.what === "slt" ? theirs.slt : this.mint(resident)
          if (slt === undefined) return "has no organisation"
          const key =
            command.what === "slt"
              ? randomKey(`crossed ${++this.keys}`)
              : (theirs.key ?? derivedKey("login", theirs.slt))
          const answer = await time.complete(this.raw("login", { slt }, key, resident))
          const given = this.tokensOf(answer)
          if (given !== undefined && (command.what === "slt" || given.actor.public_id !== resident.actor))
            law.breakWith(`a crossed login gave the session of ${other.name}`)
          return String(answer.status)
        }
        case "wrong plane": {
          if (stored === undefined) return "has no session"
          const key = derivedKey("refresh", stored.refresh_token)
          const answers = await time.complete(
            Promise.all([
              this.raw(
                "refresh",
                { refresh_token: stored.refresh_token },
                key,
                resident,
                !resident.isTesting
              ),
              this.raw("logout", { token: stored.refresh_token }, key, resident, !resident.isTesting)
            ])
          )
          if (answers[0].status === 200) law.breakWith(`a token of ${resident.name} works in the other plane`)
          return answers.map(({ status }) => status).join(", ")
        }
        case "revoke login": {
          const family = stored === undefined ? undefined : law.familyOf(stored)
          if (stored === undefined || family === undefined) return "has no session"
          law.allowEnd(stored.refresh_token)
          if (family.status === "active") family.status = "revoked"
          return undefined
        }
        case "revoke access": {
          const token =
            stored === undefined
              ? undefined
              : controls.plane(this.world.planeOf(resident)).accessTokens.get(stored.access_token)
          if (token !== undefined) token.revoked = true
          return token === undefined ? "has no session" : undefined
        }
        case "leave organisation":
        case "join organisation": {
          const plane = this.world.planeOf(resident)
          const { memberships } = controls.plane(plane)
          for (const membership of [...memberships.values()].filter(({ actor }) => actor === resident.actor))
            if (command.do === "join organisation") {
              if (membership.status === "removed")
                controls.addMembership(plane, resident.actor, membership.org)
            } else if (membership.status === "active") {
              controls.removeMembership(plane, resident.actor, membership.org)
            }
          return undefined
        }
        case "switch plane":
          resident.isTesting = !resident.isTesting
          this.world.restartProgram(resident)
          return undefined
        case "kill program":
          this.world.restartProgram(resident)
          return undefined
        case "client fault":
          resident.program.plan(command)
          return undefined
      }
    switch (command.do) {
      case "wait":
        time.jump(command.seconds * 1_000)
        return undefined
      case "kill server":
        this.world.servers[command.server]?.kill()
        return undefined
      case "fault":
        plan.add(command)
        return undefined
      case "outage":
        plan.setOutage(command.path, command.kind)
        return undefined
      case "mend":
        plan.clear()
        return undefined
      case "all refresh": {
        // Twice each: once through each server.
        const answers = await time.complete(
          Promise.all(
            this.world.residents.flatMap((each) => {
              const session = this.world.storedOf(each)
              return session === undefined || each.name === "B"
                ? []
                : [this.refresh(each, session), this.refresh(each, session)]
            })
          )
        )
        return answers.map(({ status }) => status).join(", ")
      }
      case "settle":
        await this.settle()
        return undefined
      default:
        return undefined
    }
  }

  private async wait(milliseconds: number) {
    const { time } = this.world
    await time.complete(time.sleep(milliseconds))
  }

  /** Once everything works, each program gets its login and its session. */
  private async settle() {
    const { plan, residents } = this.world
    plan.clear()
    for (const { program } of residents) program.clearFaults()
    for (const resident of residents) {
      await this.settleLogin(resident)
      await this.settleSession(resident)
    }
  }

  private async settleLogin(resident: Resident) {
    const { law, time, upstreams } = this.world
    const { plane } = this.world.holderOf(resident)
    const login = resident.logins.get(plane)
    if (login === undefined || login.done || login.key !== undefined) return
    const { families, slts } = upstreams.iam.controls.plane(plane)
    const session = slts.get(login.slt)?.session
    const family = [...families.values()].find((one) => one.session === session)
    if (family === undefined) return
    const at = law.spentAt(login.slt)
    for (let attempt = 0; attempt < settling.attempts; attempt++) {
      const outcome = await this.login(resident, login.slt)
      if (outcome?.ok === true) return
      if (family.status !== "active" || (at !== undefined && time.now() - at >= 600_000)) return
      this.tell(`    ${resident.name} repeats its login: ${textOf(outcome)}`)
      if (outcome?.ok === false && outcome.code === "slt_rejected")
        return law.breakWith(`the login of ${resident.name} is refused, while IAM honours its session`)
      if (!this.isMember(resident)) return
      await this.wait(settling.pause)
    }
    law.breakWith(`${resident.name} cannot obtain the session of its login`)
  }

  private async settleSession(resident: Resident) {
    const { law } = this.world
    let last: Outcome<unknown> | undefined
    for (let attempt = 0; attempt < settling.attempts; attempt++) {
      const stored = this.world.storedOf(resident)
      if (stored === undefined) return
      last = await this.me(resident)
      if (last?.ok === true) return
      if (!law.isLive(stored) || law.excuseFor(stored) !== undefined) return
      await this.wait(settling.pause)
    }
    law.breakWith(`${resident.name} cannot use its session, which IAM honours: ${textOf(last)}`)
  }

  async run(sequence: Sequence): Promise<void> {
    const begin = sequence.begin.map((who): Command => ({ do: "login", who, slt: "new" }))
    const { law, residents, time } = this.world
    for (const command of [...begin, ...sequence.commands, { do: "settle" } as const]) {
      const before = residents.map((resident) => this.world.storedOf(resident))
      const index = this.story.push(describe(command)) - 1
      const line = `${new Date(time.now()).toISOString().slice(5, 23)} ${describe(command)}`
      const result = await this.play(command)
      this.story[index] = result === undefined ? line : `${line}: ${result}`
      this.check(command, before)
      if (law.broken.length > 0) return
    }
  }

  private check(command: Command, before: ReadonlyArray<StoredSession | undefined>): void {
    const { law, residents, upstreams } = this.world
    law.checkFamilies()
    for (const [index, resident] of residents.entries()) {
      const had = before[index]
      const has = this.world.storedOf(resident)
      if (has !== undefined) law.checkStored(this.world.holderOf(resident), has)
      if (command.do === "switch plane" || command.do === "logout") continue
      if (had !== undefined && has === undefined && law.isLive(had) && !isLost(law.excuseFor(had)))
        law.breakWith(`the session of ${resident.name} is gone, while IAM honours it`)
    }
    for (const plane of [production, this.world.testing.environmentId])
      for (const ting of upstreams.ting.controls.accepted(plane)) {
        const known = this.tings.get(`${plane} ${ting.key}`)
        if (known === undefined || known.actor !== ting.for)
          law.breakWith(`Ting has a ting of another: ${ting.key}`)
      }
  }
}

let copies = 0

/** Plays a sequence on a copy of the template's database. */
export const playSequence = async (sequence: Sequence, folder: string): Promise<Played> => {
  const database = join(folder, `${++copies}.sqlite`)
  copyFileSync(join(folder, "template.sqlite"), database)
  const world = makeWorld(sequence, database)
  const player = new Player(world)
  try {
    await player.run(sequence)
  } catch (error) {
    world.law.breakWith(`the simulation failed: ${error instanceof Error ? error.stack : String(error)}`)
  }
  const { calls, faults, kills, requests } = world.counts()
  const sessions = [production, world.testing.environmentId]
    .map((plane) => world.upstreams.iam.controls.plane(plane).families.size)
    .reduce((sum, size) => sum + size, 0)
  await world.close()
  for (const end of ["", "-wal", "-shm"]) rmSync(`${database}${end}`, { force: true })
  return {
    story: player.story,
    broken: [...world.law.broken],
    figures: {
      commands: sequence.commands.length,
      upstreamCalls: calls,
      faults,
      kills,
      requests,
      sessions,
      rotations: world.law.rotations()
    }
  }
}
