/** Sends generated requests over several connections to one world, and compares every answer and every row with the laws. */
import * as FastCheck from "effect/FastCheck"
import { writeMessage } from "../../world/Inputs.ts"
import { answerOf, headersOf, type RawAnswer, RawConnection } from "../../world/RawHttp.ts"
import type { Play } from "../Suite.ts"
import { codeOf } from "../../world/Driver.ts"
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
/** Connections at once, requests of one step of fast-check at most, and requests of one pipeline. */
const connectionsAtOnce = 8
const largestBatch = 60
const longestPipeline = 6
/** Requests after which everything that is stored is read and compared. */
const between = 10_000
/** Requests of a run in which each call succeeds, and the least part of its answers that are successes. */
const enough = 2_000
const leastSuccess = 0.15

/** Calls that hardly succeed: a generator that is always refused proves nothing. */
const poorCalls = (seen: ReadonlyMap<string, number>): ReadonlyArray<string> =>
  operations.flatMap(({ id }) => {
    const sum = (start: string) =>
      [...seen].reduce((total, [cell, times]) => total + (cell.startsWith(start) ? times : 0), 0)
    const [successes, all] = [sum(`${id} 2`), sum(`${id} `)]
    return successes <= leastSuccess * all ? [`${id} has only ${successes} successes of ${all}`] : []
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
  /** How often each call had each answer. A generator that is always refused, or never, would prove nothing. */
  const seen = new Map<string, number>()
  const ledger = new Ledger()
  let [index, requests, connections] = [0, 0, 0]
  const make = (given: Recipe): Draft => {
    index += 1
    return makeDraft(given, index, seed, world)
  }
  const connect = (): Promise<RawConnection> => {
    connections += 1
    return RawConnection.open(world.port)
  }
  const fail = (draft: Draft, problem: string): never => {
    throw new Error(`${storyOf(draft)}: ${problem}; ${printDraft(draft)}`)
  }

  const judge = (draft: Draft, answer: RawAnswer): void => {
    const given = answerOf(answer)
    const id = draft.operation?.id ?? "none"
    const cell = `${id} ${answer.status} ${codeOf(given) ?? ""}`.trimEnd()
    seen.set(cell, (seen.get(cell) ?? 0) + 1)
    ledger.note(draft, answer)
    if (draft.message.method === "POST" && answer.status < 300) world.oracle.answered(toSent(draft), given)
    for (const problem of checkAnswer(draft, answer)) fail(draft, problem)
  }

  /** Sends requests in one pipeline; returns those that an announced end of the connection leaves. */
  const send = async (
    connection: RawConnection,
    drafts: ReadonlyArray<Draft>
  ): Promise<ReadonlyArray<Draft>> => {
    const final = drafts.at(-1)
    if (final === undefined) return []
    for (const draft of drafts) world.oracle.asked(toSent(draft))
    const bytes = Buffer.concat(drafts.map(({ message }) => writeMessage(message)))
    const pieces = drafts[0]?.recipe.pieces ?? 1
    const edge = (piece: number) => Math.floor((bytes.length * piece) / pieces)
    const { answers, fault } = await connection.exchange({
      pieces: Array.from({ length: pieces }, (_, piece) => bytes.subarray(edge(piece), edge(piece + 1))),
      methods: drafts.map(({ message }) => message.method),
      last: final.message.last,
      halfClose: final.message.halfClose,
      unfinished: final.isSyntax
    })
    requests += drafts.length
    const announced = answers.some((answer) =>
      headersOf(answer, "connection").some((value) => /close/i.test(value))
    )
    const left = drafts.slice(answers.length)
    drafts.forEach((draft, at) => {
      const answer = answers[at]
      if (answer !== undefined) judge(draft, answer)
    })
    const mayEnd = (draft: Draft) => draft.outcome.kind === "open" && draft.isSyntax
    if (fault !== undefined) fail(left[0] ?? final, fault)
    for (const draft of left)
      if (!announced && !mayEnd(draft)) fail(draft, "the connection ended without an answer")
    // A length that is too short makes a request of the rest.
    for (const { status } of answers.slice(drafts.length))
      if (!mayEnd(final) || status >= 500) fail(final, `a second answer, ${status}`)
    if (final.message.last || announced) connection.close()
    return announced ? left : []
  }

  /** Sends the requests of one connection after another, some without waiting, some twice. */
  const sendAll = async (recipes: ReadonlyArray<Recipe>): Promise<void> => {
    let connection = await connect()
    const flush = async (drafts: ReadonlyArray<Draft>) => {
      for (let waiting = drafts; waiting.length > 0; ) {
        if (!connection.isOpen) connection = await connect()
        waiting = await send(connection, waiting)
      }
    }
    let pipeline: Array<Draft> = []
    try {
      for (const given of recipes) {
        const draft = make(given)
        const fits = given.pipelined && !draft.isSyntax && pipeline.length < longestPipeline
        if (!fits || pipeline.at(-1)?.message.last === true) {
          await flush(pipeline)
          pipeline = []
        }
        const again = given.twice && draft.message.method === "POST" && !draft.message.last
        pipeline.push(draft, ...(again ? [draft] : []))
      }
      await flush(pipeline)
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
      // What was behind a broken answer in its pipeline was not noted.
      if (broken.size > 0) break
      // The rows are read while nothing is in flight.
      for (const problem of [...ledger.compare(world), ...world.oracle.problems()])
        addBroken(problem.replace(/\d+/g, "0"), problem)
      log(`${requests} requests, ${connections} connections, ${seen.size} kinds of answers`)
    }
    if (broken.size === 0 && count >= enough)
      for (const poor of poorCalls(seen)) addBroken(poor, `${count} requests: ${poor}`)
  } finally {
    await world.close()
  }
  for (const [cell, times] of [...seen].sort()) log(`${cell}: ${times}`)
  return {
    figures: {
      requests,
      connections,
      "kinds of answers": seen.size,
      accepted: ledger.accepted.size,
      refused: ledger.refused.size,
      broken: broken.size
    },
    broken: [...broken.values()]
  }
}
