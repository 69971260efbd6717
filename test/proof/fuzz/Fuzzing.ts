/** Sends the requests of a seed over several connections to one world, and compares every answer and every row with the laws. */
import type { Outcome } from "../Suite.ts"
import type { Answer } from "./Answers.ts"
import { findCanaries } from "./Canary.ts"
import { Connection } from "./Connection.ts"
import { Coverage } from "./Coverage.ts"
import { operations } from "./Contract.ts"
import { type Draft, headerOf, type LiveSession, setHeader, toBytes } from "./Draft.ts"
import { ErrorTexts } from "./ErrorTexts.ts"
import { type Expectation, expectationOf } from "./Expectation.ts"
import { toText } from "./JsonText.ts"
import { checkAnswer, envelopeOf, jsonOf } from "./Laws.ts"
import { Ledger } from "./Ledger.ts"
import { type Chosen, chooseMutations, makeRequest, printRequest, storyOf } from "./Requests.ts"
import { readStored } from "./Stored.ts"
import { readUpstreams } from "./Upstream.ts"
import { makeValid, randomFor, type Sessions } from "./Valid.ts"
import { startWorld, type World } from "./World.ts"

export interface FuzzOptions {
  readonly seed: number
  readonly count: number
  /** People with a session in each plane. */
  readonly people: number
  /** Connections at once. */
  readonly workers: number
  readonly log: (line: string) => void
}

type Problem = readonly [draft: Draft, problem: string]

/** Sizes of pipelines, in turn. */
const pipelines: ReadonlyArray<number> = [1, 1, 1, 2, 4, 6]
/** A run ends early after so many different faults. */
const mostBroken = 30

/** Requests of a run that reaches each code, and each code of each call. */
const enough = 2_000
const enoughForAll = 50_000

const credential = /(?:oat|ort|oac|obo|ask|github_pat)_[A-Za-z0-9_-]{16,}|table-[A-Za-z0-9_-]{16,}/

/** Sessions of the people: some stay, others are spent by refreshes and logouts. */
const makeSessions = (world: World) => {
  const planes = ["production", "testing"] as const
  const staying = { production: [] as Array<LiveSession>, testing: [] as Array<LiveSession> }
  const spendable = { production: [] as Array<LiveSession>, testing: [] as Array<LiveSession> }
  /** Access tokens live for half an hour, which a run on a busy machine outlasts. */
  const renew = async (): Promise<void> => {
    for (const plane of planes) {
      const renewed: Array<LiveSession> = []
      for (const actor of world.people) renewed.push(await world.login(plane, actor))
      staying[plane].splice(0, Number.POSITIVE_INFINITY, ...renewed)
    }
  }
  const sessions: Sessions = {
    bearer: (plane, random) => {
      const session = staying[plane][random.below(staying[plane].length)]
      if (session === undefined) throw new Error("no person has a session")
      return session
    },
    take: async (plane, random) => {
      const actor = world.people[random.below(world.people.length)] ?? ""
      return spendable[plane].shift() ?? (await world.login(plane, actor))
    }
  }
  const keep = (session: LiveSession): void => {
    const pool = spendable[session.plane]
    if (pool.length < 200 && !pool.some(({ refresh }) => refresh === session.refresh)) pool.push(session)
  }
  return { sessions, keep, renew }
}

const grantOf = (answer: Answer): Omit<LiveSession, "plane"> | undefined => {
  const value = jsonOf(answer)
  if (typeof value !== "object" || value === null || !("refresh_token" in value)) return undefined
  // A session fits its schema, or the answer is broken already.
  const grant = value as {
    readonly access_token: string
    readonly refresh_token: string
    readonly org_id: string
    readonly actor: { readonly public_id: string }
  }
  return {
    actor: grant.actor.public_id,
    organisation: grant.org_id,
    access: grant.access_token,
    refresh: grant.refresh_token
  }
}

const conflict: Expectation = { kind: "refused", code: "idempotency_conflict", status: 409 }
const keyed = ["auth.login", "auth.refresh", "auth.logout", "reports.submit", "tings.send"]

export const fuzz = async ({ count, log, people, seed, workers }: FuzzOptions): Promise<Outcome> => {
  const broken: Array<string> = []
  const kinds = new Set<string>()
  const addBroken = (kind: string, text: string): void => {
    if (kinds.has(kind)) return
    kinds.add(kind)
    broken.push(text)
    log(`BROKEN ${text}`)
  }
  const world = await startWorld(people, (line) => {
    for (const { index, place } of findCanaries(line))
      addBroken(`log ${place}`, `the log has a text (${place}) of request ${index}: ${line.slice(0, 300)}`)
    if (credential.test(line)) addBroken("log credential", `the log has a credential: ${line.slice(0, 300)}`)
    if (/"(?:level|logLevel)":"(?:ERROR|FATAL)"|does not declare/i.test(line))
      addBroken(`log ${line.slice(0, 80)}`, `the log has an error: ${line.slice(0, 800)}`)
  })
  const { keep, renew, sessions } = makeSessions(world)
  const coverage = new Coverage()
  const ledger = new Ledger()
  const errorTexts = new ErrorTexts()
  let [requests, connections, fiveHundreds] = [0, 0, 0]

  const connect = (): Promise<Connection> => {
    connections += 1
    return Connection.open(world.port)
  }

  const judge = (draft: Draft, expected: Expectation, answer: Answer): ReadonlyArray<string> => {
    coverage.note(draft.operation?.id ?? "none", answer.status, envelopeOf(answer)?.code)
    if (answer.status >= 500) fiveHundreds += 1
    ledger.note(draft, answer)
    errorTexts.note(draft, answer)
    const grant = answer.status === 200 ? grantOf(answer) : undefined
    const plane = headerOf(draft, "x-testing-environment-key").length > 0 ? "testing" : "production"
    if (grant !== undefined) keep({ ...grant, plane })
    return checkAnswer(draft, expected, answer, world.webOrigin)
  }

  /** Sends requests, pipelined; returns what broke, and the requests that an announced end of the connection leaves. */
  const send = async (connection: Connection, drafts: ReadonlyArray<Draft>, expectation?: Expectation) => {
    const problems: Array<Problem> = []
    const left: Array<Draft> = []
    const [first] = drafts
    const final = drafts.at(-1)
    if (first === undefined || final === undefined) return { problems, left, announced: false }
    const expected = drafts.map((draft) => expectation ?? expectationOf(draft, world))
    expected.forEach(({ kind }, at) => {
      const draft = drafts[at]
      if (draft?.mutations.length === 0 && kind !== "accepted" && draft.operation !== undefined)
        problems.push([draft, `the suite takes its own valid request for ${kind}`])
    })
    const bytes = Buffer.concat(drafts.map(toBytes))
    const random = randomFor(seed, first.index, 3)
    const parts = random.below(4) === 0 ? 2 + random.below(4) : 1
    const edge = (part: number) => Math.floor((bytes.length * part) / parts)
    const { answers, fault } = await connection.exchange(
      Array.from({ length: parts }, (_, part) => bytes.subarray(edge(part), edge(part + 1))),
      drafts.map(({ method }) => method),
      final
    )
    requests += drafts.length
    if (fault !== undefined) problems.push([drafts[answers.length] ?? final, fault])
    let announced = false
    drafts.forEach((draft, at) => {
      const answer = answers[at]
      const expects = expected[at]
      if (answer !== undefined && expects !== undefined) {
        for (const problem of judge(draft, expects, answer)) problems.push([draft, problem])
        announced = answer.headers.some(
          ([name, value]) => name === "connection" && value.toLowerCase() === "close"
        )
        return
      }
      if (announced) {
        left.push(draft)
        ledger.noteAgain(draft)
        return
      }
      ledger.noteUnanswered(draft)
      const mayEnd = expects?.kind === "open" && expects.transport
      if (!mayEnd && fault === undefined) problems.push([draft, "the connection ended without an answer"])
    })
    // A length that is too short makes a request of the rest.
    for (const { status } of answers.slice(drafts.length))
      if (final.malformed !== "perhaps" || status >= 500) problems.push([final, `a second answer, ${status}`])
    return { problems, left, announced }
  }

  const sendAlone = async (draft: Draft, expectation?: Expectation): Promise<ReadonlyArray<Problem>> => {
    const connection = await connect()
    const { problems } = await send(connection, [draft], expectation)
    connection.close()
    return problems
  }

  /** The fewest mutations with which a problem is seen again. */
  const shrink = async (problem: Problem): Promise<Problem> => {
    let smallest = problem
    let chosen: ReadonlyArray<Chosen> = chooseMutations(seed, problem[0].index)
    for (let at = 0; at < chosen.length; ) {
      const fewer = chosen.filter((_, position) => position !== at)
      const draft = await makeRequest(seed, problem[0].index, fewer, world, sessions)
      // The first request may have used its key.
      draft.headers = draft.headers.map(([name, value]) =>
        name === "Idempotency-Key" ? [name, value.replace(/^fuzz/, `again${at}`)] : [name, value]
      )
      const [found] = await sendAlone(draft)
      if (found === undefined) at += 1
      else {
        chosen = fewer
        smallest = found
      }
    }
    return smallest
  }

  const report = async (problems: ReadonlyArray<Problem>): Promise<void> => {
    for (const problem of problems) {
      const kind = `${problem[1].replace(/\d+/g, "0").slice(0, 60)} ${problem[0].operation?.id}`
      if (kinds.has(kind)) continue
      const [draft, seen] = await shrink(problem)
      addBroken(kind, `${storyOf(seed, draft)}: ${seen}; request ${printRequest(draft)}`)
    }
  }

  /** The requests of one pipeline, cut where a request ends its connection. */
  const makePipelines = async (
    indices: ReadonlyArray<number>
  ): Promise<ReadonlyArray<ReadonlyArray<Draft>>> => {
    const made: Array<Array<Draft>> = [[]]
    for (const index of indices) {
      const draft = await makeRequest(seed, index, chooseMutations(seed, index), world, sessions)
      if (draft.malformed !== undefined) made.push([draft], [])
      else {
        made.at(-1)?.push(draft)
        // The same bytes once more, perhaps while the first are in work.
        if (draft.method === "POST" && !draft.last && randomFor(seed, index, 4).below(25) === 0)
          made.at(-1)?.push({ ...draft, mutations: [...draft.mutations, "sent twice"] })
        if (draft.last) made.push([])
      }
    }
    return made.filter(({ length }) => length > 0)
  }

  /** A used key with other content is a conflict, and spends nothing. */
  const sendConflict = async (draft: Draft): Promise<ReadonlyArray<Problem>> => {
    if (!keyed.includes(draft.operation?.id ?? "") || draft.mutations.length > 0) return []
    if (randomFor(seed, draft.index, 5).below(10) > 0) return []
    // A text that is no token ends no session, so its key is not used.
    if (draft.operation?.id === "auth.logout" && !/"o[ar]t_/.test(String(draft.body))) return []
    const other = await makeRequest(seed, draft.index, [], world, sessions, "other content")
    const problems = await sendAlone(other, conflict)
    const spends = other.operation?.id === "auth.refresh" || other.operation?.id === "auth.logout"
    if (spends && other.session !== undefined) keep(other.session)
    return problems
  }

  /** More reports from one address than an hour's quota, so that limits answer, too. */
  const exceedQuota = async (): Promise<void> => {
    const submit = operations.find(({ id }) => id === "reports.submit")
    if (submit === undefined) return
    for (let more = 0; more < 75; more += 1) {
      const draft = await makeValid(seed, count + more, world, sessions, submit)
      draft.body = Buffer.from(toText(draft.value ?? null))
      draft.address = "192.0.2.2"
      draft.open = true
      draft.mutations.push("many reports from one address")
      setHeader(draft, "Authorization")
      await report(await sendAlone(draft, { kind: "open", transport: false }))
    }
  }

  let next = 0
  let pipeline = 0
  const work = async (until: number): Promise<void> => {
    let connection = await connect()
    while (next < until && broken.length < mostBroken) {
      const size = Math.min(pipelines[pipeline % pipelines.length] ?? 1, until - next)
      const indices = Array.from({ length: size }, (_, at) => next + at)
      pipeline += 1
      next += size
      for (const drafts of await makePipelines(indices)) {
        let waiting: ReadonlyArray<Draft> = drafts
        while (waiting.length > 0) {
          if (!connection.isOpen) connection = await connect()
          const { announced, left, problems } = await send(connection, waiting)
          if (waiting.at(-1)?.last === true || problems.length > 0 || announced) connection.close()
          await report(problems)
          waiting = left
        }
        for (const draft of drafts) await report(await sendConflict(draft))
      }
    }
    connection.close()
  }

  try {
    // The rows are read while nothing is in flight.
    const parts = Math.max(1, Math.round(count / 10_000))
    for (let part = 1; part <= parts && broken.length < mostBroken; part += 1) {
      await renew()
      if (part === 1) await exceedQuota()
      const until = Math.floor((count * part) / parts)
      await Promise.all(Array.from({ length: workers }, () => work(until)))
      for (const [kind, text] of [
        ...ledger.compare(readStored(world)),
        ...ledger.compareUpstreams(readUpstreams(world), world.ownSlts, world.people)
      ])
        addBroken(kind, `seed ${seed} ${text}`)
      log(`${requests} requests, ${connections} connections, ${coverage.size} kinds of answers`)
    }
    for (const text of errorTexts.repeated()) addBroken(text.replace(/\d+/g, "0"), `seed ${seed} ${text}`)
    const missing = count < enoughForAll ? coverage.missingCodes() : coverage.missing()
    if (broken.length === 0 && count >= enough)
      for (const gap of [...coverage.fewSuccesses(), ...missing])
        addBroken(gap, `seed ${seed}, ${count} requests: ${gap}`)
  } finally {
    await world.close()
  }
  for (const line of coverage.lines()) log(line)
  return {
    figures: {
      requests,
      connections,
      "kinds of answers": coverage.size,
      accepted: ledger.accepted.size,
      refused: ledger.refused.size,
      "5xx": fiveHundreds,
      broken: broken.length
    },
    broken
  }
}
