/** Two servers on one database and four programs on three machines, and what the commands do with them. */
import { createHash } from "node:crypto"
import { production } from "../../../sandbox/upstreams/Iam.ts"
import type { StoredSession } from "../../../client/stores/SessionStore.ts"
import type { MusicError, Result } from "../../../client/Types.ts"
import { type Answer, requests, type Sent } from "../../world/Driver.ts"
import { openWorld, type World } from "../../world/World.ts"
import { type Holder, makeLaw, replayWindow, type Law } from "./Law.ts"
import { type Machine, makeMachine, type Program, startProgram, storedIn } from "./Programs.ts"

/** A and B are two programs of one machine. */
export const names = ["A", "B", "C", "D"] as const
export type Name = (typeof names)[number]

const actors: Readonly<Record<Name, string>> = { A: "si:deejay", B: "si:deejay", C: "si:lyra", D: "c:ana" }

/** The key of an operation on a credential (docs/client.md, "Keys, for clients in other languages"). */
export const derivedKey = (operation: "refresh", credential: string): string =>
  createHash("sha256").update(`music-client/v1\n${operation}\n${credential}`).digest("hex")

/** Milliseconds from the death of a server to the start of the next one. */
const restartAfter = 1_000
/** Milliseconds of a request on its way to a server, and of its answer. */
const distance = 3
/** Milliseconds on the way to an upstream, and as many at most on the way back. */
const latency = { least: 1, most: 40 } as const
/** Attempts of a program once everything works, and milliseconds between them: more than a minute, the longest pause of IAM's budget. */
const settling = { attempts: 10, pause: 10_000 } as const
/** Milliseconds: the deadline of a call, and what it may take beyond. */
const longestCall = 31_000

/** The programs of one name end, and others follow them. */
export interface Resident {
  readonly name: Name
  readonly actor: string
  readonly machine: Machine
  program: Program
  isTesting: boolean
  /** By plane: the latest short-lived token, and whether its login ended well. */
  readonly logins: Map<string, { readonly slt: string; done: boolean }>
}

interface Setup {
  /** Calls to IAM that one server may make a minute and path. */
  readonly budget: number
  readonly random: number
}

type Outcome<A> = Result<A, MusicError>

export const textOf = (outcome: Outcome<unknown>): string => {
  if (outcome.ok) return "ok"
  const { code, details } = outcome.error
  return `${code} ${Object(details).reason ?? ""}`.trimEnd()
}

/** What a login or refresh gave. */
export const tokensOf = (answer: Answer | undefined): StoredSession | undefined =>
  answer?.status === 200 ? (JSON.parse(answer.text) as StoredSession) : undefined

export class Stage {
  readonly story: Array<string> = []
  readonly residents: ReadonlyArray<Resident>
  readonly world: World
  readonly law: Law
  private readonly holders = new Map<string, Holder>()
  private keys = 0

  constructor(world: World, law: Law) {
    this.world = world
    this.law = law
    const shared = makeMachine()
    this.residents = names.map((name) => {
      const machine = name === "A" || name === "B" ? shared : makeMachine()
      const isTesting = name === "C"
      const program = this.startProgram(name, machine, isTesting)
      return { name, actor: actors[name], machine, program, isTesting, logins: new Map() }
    })
  }

  get controls() {
    return this.world.upstreams.iam.controls
  }

  resident(name: Name): Resident {
    const found = this.residents.find((resident) => resident.name === name)
    if (found === undefined) throw new Error(`there is no program ${name}`)
    return found
  }

  newKey(): string {
    return createHash("sha256")
      .update(`key ${++this.keys}`)
      .digest("hex")
  }

  /** Sends through a balancer, from an address of the caller. */
  async reach(address: string, request: Sent): Promise<Answer> {
    const { time } = this.world
    await time.sleep(distance)
    const answer = await this.world.send(address, request)
    const given = /\/(?:login|refresh)$/.test(request.path) ? tokensOf(answer) : undefined
    if (given !== undefined) this.law.checkGrant(JSON.parse(String(request.body)), given)
    await time.sleep(distance)
    return answer
  }

  private startProgram(name: Name, machine: Machine, isTesting: boolean): Program {
    const { time, upstreams } = this.world
    return startProgram({
      time,
      machine,
      testingKey: isTesting ? upstreams.seeded.environment.musicSecret : null,
      reach: (request) => this.reach(`192.0.2.${names.indexOf(name) + 1}`, request)
    })
  }

  restartProgram(resident: Resident): void {
    resident.program = this.startProgram(resident.name, resident.machine, resident.isTesting)
  }

  planeOf({ isTesting }: Resident): string {
    return isTesting ? this.world.upstreams.seeded.environment.environmentId : production
  }

  stateOf(resident: Resident) {
    return this.controls.plane(this.planeOf(resident))
  }

  storedOf({ isTesting, machine }: Resident): StoredSession | undefined {
    return storedIn(machine, isTesting)
  }

  holderOf(resident: Resident): Holder {
    const plane = this.planeOf(resident)
    const owner = resident.name === "B" ? "A" : resident.name
    const name = `the machine of ${owner}, ${resident.isTesting ? "testing" : "production"},`
    const holder = this.holders.get(name) ?? { name, plane, sessions: new Set<string>() }
    this.holders.set(name, holder)
    return holder
  }

  /** Runs a call of a program until it ends. */
  async call<A>({ name, program }: Resident, run: (program: Program) => Promise<Outcome<A>>) {
    const { time } = this.world
    const began = time.now()
    const outcome = await time.complete(run(program))
    if (time.now() - began > longestCall)
      this.law.breakWith(`a call of ${name} lasted ${time.now() - began} ms`)
    if (!outcome.ok && outcome.error.code === "client_defect") this.law.breakWith("a defect of the client")
    return outcome
  }

  /** Requests at once of callers that are no programs of the model. An answer that is lost has the status 0. */
  send(sent: ReadonlyArray<Sent>): Promise<ReadonlyArray<Answer>> {
    return this.world.time.complete(
      Promise.all(
        sent.map((request) =>
          this.reach("198.51.100.7", request).catch(() => ({ status: 0, headers: {}, text: "" }))
        )
      )
    )
  }

  /** The testing secret of a program's plane, or of the other one. */
  secretOf({ isTesting }: Resident, isOther = false): string | undefined {
    return isTesting === isOther ? undefined : this.world.upstreams.seeded.environment.musicSecret
  }

  /** The refresh of a session as its client sends it. */
  ownRefresh(resident: Resident, { refresh_token }: StoredSession): Sent {
    return requests.refresh(refresh_token, derivedKey("refresh", refresh_token), this.secretOf(resident))
  }

  /** A call with the session. One that IAM still honours may not be called over. */
  async signed<A>(resident: Resident, run: (program: Program) => Promise<Outcome<A>>) {
    const { law, story } = this
    const before = this.storedOf(resident)
    const outcome = await this.call(resident, run)
    if (before === undefined || outcome.ok || outcome.error.code !== "logged_out") return outcome
    story.push(`    the session of ${resident.name} is over: ${law.excuseFor(before) ?? "no excuse"}`)
    if (law.isLive(before) && !law.isLost(before))
      law.breakWith(`${resident.name} is logged out: ${textOf(outcome)}, while IAM honours its session`)
    return outcome
  }

  async me(resident: Resident) {
    const outcome = await this.signed(resident, (program) => program.me())
    if (!outcome.ok) return outcome
    const { actor, session_id, testing_environment_id } = outcome.value
    const { plane, sessions } = this.holderOf(resident)
    const isOwn = actor.public_id === resident.actor && sessions.has(session_id)
    if (!isOwn || (testing_environment_id ?? production) !== plane)
      this.law.breakWith(`${resident.name} is answered as ${JSON.stringify(outcome.value)}`)
    return outcome
  }

  async login(resident: Resident, slt: string) {
    const plane = this.planeOf(resident)
    const known = resident.logins.get(plane)
    const entry = known?.slt === slt ? known : { slt, done: false }
    resident.logins.set(plane, entry)
    const outcome = await this.call(resident, (program) => program.login(slt))
    if (outcome.ok) entry.done = true
    const minted = this.stateOf(resident).slts.get(slt)
    if (minted !== undefined) this.holderOf(resident).sessions.add(minted.session.id)
    return outcome
  }

  isMember(resident: Resident): boolean {
    return [...this.stateOf(resident).memberships.values()].some(
      ({ actor, status }) => actor === resident.actor && status === "active"
    )
  }

  /** A short-lived token; none without an organisation. */
  mint(resident: Resident): string | undefined {
    const minted = { appId: "music", actor: resident.actor }
    return this.isMember(resident) ? this.controls.mintSlt(this.planeOf(resident), minted) : undefined
  }

  /** The login with which a sequence begins. */
  async begin(name: Name): Promise<void> {
    const resident = this.resident(name)
    await this.play(`${name} logs in`, () => this.login(resident, this.mint(resident) ?? ""))
  }

  /** One step of the story, with what it says of itself; throws when a promise is broken. Where `mayEnd`, a program may be without its session afterwards. */
  async play(what: string, act: () => unknown, mayEnd = false): Promise<void> {
    const { law, residents, world } = this
    const before = residents.map((resident) => ({
      plane: this.planeOf(resident),
      had: this.storedOf(resident)
    }))
    const at = new Date(world.time.now()).toISOString().slice(5, 23)
    const index = this.story.push(`${at} ${what}`) - 1
    const result = await act()
    if (typeof result === "string") this.story[index] = `${at} ${what}: ${result}`
    for (const problem of world.oracle.endedSessions()) law.breakWith(problem)
    for (const [at, resident] of residents.entries()) {
      const { had, plane } = before[at] ?? {}
      const has = this.storedOf(resident)
      if (has !== undefined) law.checkStored(this.holderOf(resident), has)
      const isGone = had !== undefined && has === undefined && plane === this.planeOf(resident)
      if (mayEnd || !isGone) continue
      if (law.isLive(had) && !law.isLost(had))
        law.breakWith(`the session of ${resident.name} is gone, while IAM honours it`)
    }
    this.demand()
  }

  /** The error has what is broken, and the story. */
  demand(problems: Iterable<string> = this.law.broken): void {
    const broken = [...problems]
    if (broken.length > 0) throw new Error([...broken, ...this.story].join("\n  "))
  }

  /** Once everything works, each program gets its login and its session. */
  async settle() {
    this.world.faults.heal()
    for (const resident of this.residents) {
      await this.settleLogin(resident)
      await this.settleSession(resident)
    }
  }

  private async settleLogin(resident: Resident) {
    const { law, world } = this
    const login = resident.logins.get(this.planeOf(resident))
    if (login === undefined || login.done) return
    const { families, slts } = this.stateOf(resident)
    const session = slts.get(login.slt)?.session
    const family = [...families.values()].find((one) => one.session === session)
    if (family === undefined) return
    const at = law.spentAt(login.slt) ?? Number.POSITIVE_INFINITY
    await this.insist(`${resident.name} cannot obtain the session of its login`, async () => {
      const outcome = await this.login(resident, login.slt)
      const isLate = family.status !== "active" || world.time.now() - at >= replayWindow
      if (outcome.ok || isLate) return true
      if (outcome.error.code !== "slt_rejected") return !this.isMember(resident)
      law.breakWith(`the login of ${resident.name} is refused, while IAM honours its session`)
      return true
    })
  }

  private async settleSession(resident: Resident) {
    await this.insist(`${resident.name} cannot use its session, which IAM honours`, async () => {
      const stored = this.storedOf(resident)
      if (stored === undefined) return true
      const { ok } = await this.me(resident)
      return ok || !this.law.isLive(stored) || this.law.excuseFor(stored) !== undefined
    })
  }

  /** Tries until it is done; else the problem is one. */
  private async insist(problem: string, isDone: () => Promise<boolean>) {
    const { time } = this.world
    for (let attempt = 0; attempt < settling.attempts; attempt++) {
      if (await isDone()) return
      await time.complete(time.sleep(settling.pause))
    }
    this.law.breakWith(problem)
  }
}

/** Runs a story in a world of its own. */
export const withStage = async <A>(
  { budget, random }: Setup,
  use: (stage: Stage) => Promise<A>
): Promise<A> => {
  const law: Law = makeLaw(() => world)
  const way = () => latency.least + world.random.next() * (latency.most - latency.least)
  const world: World = await openWorld({
    seed: random,
    instances: 2,
    tables: [],
    settings: { rateLimit: false, iam: { callsPerMinute: budget } },
    latency: way,
    observers: [law.observer],
    restartAfter
  })
  const stage = new Stage(world, law)
  try {
    return await use(stage)
  } finally {
    await world.close()
  }
}
