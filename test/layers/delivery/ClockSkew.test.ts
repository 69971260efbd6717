/** Timestamps that a host wrote while its clock was a day ahead, after its process was killed and the clock corrected. */
import { expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import { makeTableBreaker } from "../../../src/layers/delivery/TableBreaker.ts"
import { issuesPath, repository, simulatedTracker } from "../tracker/Simulated.ts"
import { freshPath, openStore, sampleLease, sampleReport } from "../store/Stores.ts"
import { makeHarness } from "./Harness.ts"

const day = 24 * 3_600_000

const makeWorld = Effect.gen(function* () {
  const harness = yield* makeHarness
  /** Milliseconds by which our clock is ahead of GitHub's, which is right. */
  let ahead = 0
  const { github, settings } = yield* simulatedTracker(() => harness.now() - ahead)
  const setAhead = (millis: number) =>
    Effect.suspend(() => {
      const change = millis - ahead
      ahead = millis
      return harness.setTime(harness.now() + change)
    })
  const requests = (method: string) =>
    github.seen.filter((request) => request.method === method && request.path.endsWith("/issues")).length
  return { ...harness, github, requests, setAhead, settings, issues: () => github.issues(repository) }
})

it.scoped.each([
  ["before", "hang", 0],
  ["after", "hang-after", 1]
] as const)(
  "A report whose sender died %s GitHub received it is filed once, without delay",
  function* ([_, kind, arrived]) {
    const { expectHanging, github, issues, now, pass, requests, setAhead, settings, start, store, until } =
      yield* makeWorld
    yield* store.reports.admit(sampleReport({ createdAt: now() - 1_000 }), true)
    github.fail({ method: "POST", path: issuesPath, times: 1, fault: { kind } })
    yield* expectHanging(1)
    yield* setAhead(day)
    const process = yield* start(settings)
    yield* until(() => requests("POST") === 1)
    yield* process.kill
    expect(issues().length).toBe(arrived)

    yield* setAhead(0)
    yield* start(settings)
    yield* pass(90)
    expect(issues().length).toBe(1)
    const filed = Option.flatMap(yield* store.reports.find("rep_1"), ({ issue }) => issue)
    expect(Option.map(filed, ({ number }) => number)).toEqual(Option.some(1))
  }
)

it.scoped("A sweep planned by a fast clock runs, at most once an hour until its due time", function* () {
  const { now, pass, requests, settings, start, store } = yield* makeWorld
  const real = now()
  const issue = { number: 57, url: "https://github.com/harbor/music/issues/57" }
  yield* store.reports.admit(sampleReport({ createdAt: real - 1_000 }), true)
  const at = real + day
  const [leased] = yield* store.deliveries.lease(sampleLease({ now: at }))
  if (leased === undefined) return expect.fail("nothing was leased")
  yield* store.deliveries.update(leased.id, leased.fence, {
    _tag: "Delivered",
    at,
    issue: Option.some(issue),
    sweepAt: Option.some(at + 3_600_000)
  })
  yield* start(settings)
  yield* pass(60)
  expect(requests("GET")).toBe(1)
})

it.scoped("A table closed by a fast clock is probed, and stays closed for the usual time", () =>
  Effect.gen(function* () {
    const { destinations } = yield* openStore(yield* freshPath)
    const breaker = makeTableBreaker(destinations, new Set(["musicclidaemon"] as const), 300_000)
    const due = Effect.map(breaker.states, ({ due }) => [...due])
    yield* TestClock.setTime(10 * day)
    yield* breaker.close("musicclidaemon")
    yield* TestClock.setTime(9 * day)
    expect(yield* due).toEqual(["musicclidaemon"])
    expect(yield* breaker.reserveProbe("musicclidaemon")).toBe(true)
    expect(yield* breaker.reserveProbe("musicclidaemon")).toBe(false)
    expect(yield* due).toEqual([])
    yield* TestClock.adjust(300_000)
    expect(yield* due).toEqual(["musicclidaemon"])
  }).pipe(Effect.provide(Logger.remove(Logger.defaultLogger)))
)
