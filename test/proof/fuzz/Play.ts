/** Sends generated requests over several connections to one world, and compares every answer and every row with the laws. */
import { FastCheck } from "effect"
import { writeMessage } from "../../world/Inputs.ts"
import { answerOf, headersOf, openRaw, type RawAnswer, type RawConnection } from "../../world/RawHttp.ts"
import type { Play } from "../Suite.ts"
import { operations } from "../../world/Contract.ts"
import { checkAnswer, toSent } from "./Laws.ts"
import { Ledger } from "./Ledger.ts"
import { type Recipe, recipe } from "./Recipes.ts"
import { type Draft, findCanaries, makeDraft, printDraft, storyOf } from "./Requests.ts"
import { startWorld } from "./World.ts"

/** Requests of a full run. */
const full = 100_000
/** People with a session in each plane: one to so many requests, within bounds. */
const peopleOf = (count: number) => Math.max(40, Math.min(90, count / 1_000))
/** Connections at once, and requests of one step of fast-check at most. */
const connectionsAtOnce = 8
const largestBatch = 60
/** Requests after which everything that is stored is read and compared. */
const between = 10_000
/** Requests of a run in which each call succeeds, and the least part of its answers that are successes. */
const enough = 2_000
const leastSuccess = 0.15

/** Calls that hardly succeed: a generator that is always refused proves nothing. */
const poorCalls = (seen: ReadonlyMap<string, ReadonlyArray<number>>): ReadonlyArray<string> =>
  operations.flatMap(({ id }) => {
    const all = seen.get(id) ?? []
    const successes = all.filter((status) => status < 300).length
    return successes <= leastSuccess * all.length
      ? [`${id} has only ${successes} successes of ${all.length}`]
      : []
  })

const credential = /(?:oat|ort|oac|obo|ask|github_pat)_[A-Za-z0-9_-]{16,}|table-[A-Za-z0-9_-]{16,}/

export const play: Play = async ({ count = full, log, seed }) => {
  const broken = new Map<string, string>()
  const addBroken = (kind: string, text: string): void => {
    if (broken.has(kind)) return
    broken.set(kind, `seed ${seed}: ${text}`)
    log(`BROKEN ${text}`)
  }
  const world = await startWorld(peopleOf(count), (line) => {
    for (const { index, place } of findCanaries(line))
      addBroken(`log ${place}`, `the log has a text (${place}) of request ${index}: ${line.slice(0, 300)}`)
    if (credential.test(line)) addBroken("log credential", `the log has a credential: ${line.slice(0, 300)}`)
    if (/"(?:level|logLevel)":"(?:ERROR|FATAL)"|does not declare/i.test(line))
      addBroken(`log ${line.slice(0, 80)}`, `the log has an error: ${line.slice(0, 800)}`)
  })
  /** The statuses of each call. */
  const seen = new Map<string, Array<number>>()
  const ledger = new Ledger()
  let [index, requests, connections] = [0, 0, 0]
  const make = (given: Recipe): Draft => makeDraft(given, ++index, seed, world)
  const connect = (): Promise<RawConnection> => {
    connections += 1
    return openRaw(world.port)
  }
  const fail = (draft: Draft, problem: string): never => {
    throw new Error(`${storyOf(draft)}: ${problem}; ${printDraft(draft)}`)
  }

  const judge = (draft: Draft, answer: RawAnswer): void => {
    const id = draft.operation?.id ?? "none"
    const statuses = seen.get(id) ?? []
    statuses.push(answer.status)
    seen.set(id, statuses)
    ledger.note(draft, answer)
    if (draft.message.method === "POST" && answer.status < 300)
      world.oracle.answered(toSent(draft), answerOf(answer))
    for (const problem of checkAnswer(draft, answer)) fail(draft, problem)
  }

  const send = async (connection: RawConnection, draft: Draft): Promise<void> => {
    const { isSyntax, message, outcome, recipe } = draft
    world.oracle.asked(toSent(draft))
    const bytes = writeMessage(message)
    const edge = (piece: number) => Math.floor((bytes.length * piece) / recipe.pieces)
    const { answers, fault } = await connection.exchange({
      pieces: Array.from({ length: recipe.pieces }, (_, piece) =>
        bytes.subarray(edge(piece), edge(piece + 1))
      ),
      methods: [message.method],
      last: message.last,
      halfClose: message.halfClose,
      unfinished: isSyntax
    })
    requests += 1
    const [answer, ...others] = answers
    if (answer !== undefined) judge(draft, answer)
    const mayEnd = outcome.kind === "open" && isSyntax
    if (fault !== undefined) fail(draft, fault)
    if (answer === undefined && !mayEnd) fail(draft, "the connection ended without an answer")
    // A length that is too short makes a request of the rest.
    for (const { status } of others) if (!mayEnd || status >= 500) fail(draft, `a second answer, ${status}`)
    const isAnnounced = answers.some((one) =>
      headersOf(one, "connection").some((value) => /close/i.test(value))
    )
    if (message.last || isAnnounced) connection.close()
  }

  /** Sends the requests of one connection after another, some twice. */
  const sendAll = async (recipes: ReadonlyArray<Recipe>): Promise<void> => {
    let connection = await connect()
    try {
      for (const given of recipes) {
        const draft = make(given)
        const again = given.twice && draft.message.method === "POST" && !draft.message.last
        for (const one of again ? [draft, draft] : [draft]) {
          if (connection.closed()) connection = await connect()
          await send(connection, one)
        }
      }
    } finally {
      connection.close()
    }
  }

  const sendBatch = async (batch: ReadonlyArray<Recipe>): Promise<void> => {
    const lanes = Array.from({ length: connectionsAtOnce }, (_, lane) =>
      batch.filter((_each, at) => at % connectionsAtOnce === lane)
    )
    // All of them end before fast-check tries a smaller batch.
    const ended = await Promise.allSettled(lanes.filter(({ length }) => length > 0).map(sendAll))
    for (const lane of ended) if (lane.status === "rejected") throw lane.reason
  }

  /** Sends batches until so many requests were sent, and shrinks the first that breaks a law. */
  const sendUntil = async (until: number, part: number): Promise<void> => {
    const batch = FastCheck.array(recipe, { minLength: 1, maxLength: largestBatch, size: "max" })
    for (let round = 0; requests < until && broken.size === 0; round += 1) {
      const random = Math.max(1, Math.ceil((until - requests) / (largestBatch / 2)))
      const { counterexample, errorInstance, failed, numShrinks } = await FastCheck.check(
        FastCheck.asyncProperty(batch, sendBatch),
        {
          seed: seed * 1_000_000 + part * 1_000 + round,
          numRuns: random
        }
      )
      if (failed)
        addBroken(
          "answer",
          `${errorInstance} (${counterexample?.[0].length} requests, shrunk ${numShrinks} times)`
        )
    }
  }

  try {
    const parts = Math.max(1, Math.round(count / between))
    for (let part = 0; part < parts && broken.size === 0; part += 1) {
      world.renew()
      await sendUntil(Math.floor((count * (part + 1)) / parts), part)
      if (broken.size > 0) break
      // The rows are read while nothing is in flight.
      for (const problem of [...ledger.compare(world), ...world.oracle.problems()])
        addBroken(problem.replace(/\d+/g, "0"), problem)
      log(`${requests} requests, ${connections} connections`)
    }
    if (broken.size === 0 && count >= enough)
      for (const poor of poorCalls(seen)) addBroken(poor, `${count} requests: ${poor}`)
  } finally {
    await world.close()
  }
  return {
    figures: {
      requests,
      connections,
      accepted: ledger.accepted.size,
      refused: ledger.refused.size,
      broken: broken.size
    },
    broken: [...broken.values()]
  }
}
