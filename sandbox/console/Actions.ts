/** Carries out what a person does, and keeps what came of it. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { call, type Exchange as Answer, StepFailed } from "../HttpExchange.ts"
import type { Sandbox } from "../Run.ts"
import { isRecord, parseJson } from "../upstreams/Contract.ts"
import { cut, longestBody } from "./BoundedText.ts"
import type { InjectedFaults } from "./InjectedFaults.ts"
import { type Entry, type Journal, recordOf } from "./Journal.ts"
import type { Outgoing } from "./Outgoing.ts"
import { makeOutgoing, type Sending } from "./PreparedRequests.ts"
import type { Action, ActionRecord, Exchange } from "./Protocol.ts"
import { type Refused, refuse } from "./Refused.ts"
import type { Sessions } from "./Sessions.ts"
import { makeTitles } from "./Titles.ts"

/** Carries out an action. Returns its record, once the service has answered. */
export type Perform = (action: Action) => Effect.Effect<ActionRecord, Refused>

type Controlling = Exclude<Action, Sending>

/** More than the service's own deadline. */
const answerTimeout = "60 seconds"

const textOf = (body: unknown, name: string): string | undefined => {
  const value = isRecord(body) ? body[name] : undefined
  return typeof value === "string" ? value : undefined
}

const exchangeOf = (
  sent: Outgoing,
  headers: Exchange["requestHeaders"],
  answer: Answer | StepFailed
): Exchange => {
  const request = {
    method: sent.method,
    url: sent.url,
    requestHeaders: headers,
    requestBody: sent.body === undefined ? null : cut(sent.body, longestBody),
    isCut: (sent.body?.length ?? 0) > longestBody
  }
  return answer instanceof StepFailed
    ? { ...request, status: null, responseHeaders: {}, responseBody: answer.problem }
    : {
        ...request,
        requestHeaders: answer.requestHeaders,
        status: answer.status,
        responseHeaders: Object.fromEntries(answer.headers),
        responseBody: cut(answer.text, longestBody)
      }
}

export const makeActions = (
  sandbox: Sandbox,
  parts: { readonly journal: Journal; readonly sessions: Sessions; readonly faults: InjectedFaults }
): Perform => {
  const { clock, world } = sandbox
  const { faults, journal, sessions } = parts
  const prepare = makeOutgoing(sandbox, parts)
  const titleOf = makeTitles(world, parts)

  const control = (action: Controlling): Effect.Effect<void, Refused> => {
    switch (action.kind) {
      case "addFault":
        return faults.add(action)
          ? Effect.void
          : refuse("The upstream has no such route", "choose one of the list, or every call")
      case "removeFault":
        return faults.remove(action.fault)
          ? Effect.void
          : refuse("The fault has ended", "there is nothing to do")
      case "advanceClock":
        return Effect.sync(() => clock.advance(action.milliseconds))
    }
  }

  /** What the answer made, or gave to the caller. */
  const keepTokens = (entry: Entry, { plane }: Outgoing, answer: Answer): void => {
    const body = parseJson(Buffer.from(answer.text))
    const accessToken = textOf(body, "access_token")
    const refreshToken = textOf(body, "refresh_token")
    if (accessToken !== undefined && refreshToken !== undefined)
      sessions.keepTokens(plane, { accessToken, refreshToken })
    // An issue names its report.
    const id = textOf(body, "id")
    if (id !== undefined) journal.recordMade(entry, id)
  }

  const send = (entry: Entry, outgoing: Outgoing): Effect.Effect<void> =>
    Effect.gen(function* () {
      const { body, from, makes, method, to, url } = outgoing
      const headers = { ...outgoing.headers, traceparent: journal.traceOf(entry) }
      const path = new URL(url).pathname
      const arrow = {
        from,
        to,
        method,
        path,
        startedAt: entry.startedAt,
        fault: null,
        isLater: false
      }
      entry.first = { ...arrow, endedAt: null, status: null }
      for (const content of makes) journal.recordMade(entry, content)
      journal.notify(entry)
      const answer = yield* call(url, { method, headers, ...(body === undefined ? {} : { body }) }).pipe(
        Effect.timeoutFail({
          duration: answerTimeout,
          onTimeout: () => new StepFailed({ problem: `no answer within ${answerTimeout}` })
        }),
        Effect.either
      )
      entry.endedAt = clock.now()
      entry.exchange = exchangeOf(outgoing, headers, Either.merge(answer))
      entry.first = { ...arrow, endedAt: entry.endedAt, status: entry.exchange.status }
      if (Either.isRight(answer)) keepTokens(entry, outgoing, answer.right)
      journal.notify(entry)
    })

  return (action) =>
    Effect.gen(function* () {
      switch (action.kind) {
        case "addFault":
        case "removeFault":
        case "advanceClock": {
          // A fault that is removed has a name only before.
          const title = titleOf(action)
          yield* control(action)
          const entry = journal.begin(action, null, title, clock.now())
          entry.endedAt = entry.startedAt
          journal.notify(entry)
          return recordOf(entry)
        }
        default: {
          const outgoing = yield* prepare(action)
          const entry = journal.begin(action, outgoing, titleOf(action), clock.now())
          yield* send(entry, outgoing)
          return recordOf(entry)
        }
      }
    })
}
