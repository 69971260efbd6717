import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Scheduler from "effect/Scheduler"
import * as TestClock from "effect/TestClock"
import { Deadlines } from "../../src/services/Deadlines.ts"
import { monotonicMillis } from "../../src/services/MonotonicTime.ts"

/** Deadlines in milliseconds from now, and the names of those that passed. */
const setUp = Effect.gen(function* () {
  const deadlines = yield* Deadlines
  const now = yield* monotonicMillis
  const passed: Array<string> = []
  const add = (name: string, millis: number) => deadlines.add(now + millis, () => void passed.push(name))
  return { add, passed, count: deadlines.count }
})

describe("Deadlines", () => {
  it.scoped("call each one once, when it has passed, unless it was released", () =>
    Effect.gen(function* () {
      const { add, count, passed } = yield* setUp
      add("later", 3_000)
      const release = add("released", 1_500)
      add("first", 1_000)
      yield* TestClock.adjust("999 millis")
      expect(passed).toEqual([])
      yield* TestClock.adjust("1 millis")
      expect(passed).toEqual(["first"])
      release()
      yield* TestClock.adjust("1 minute")
      expect(passed).toEqual(["first", "later"])
      expect(count()).toBe(0)
    }).pipe(Effect.provide(Deadlines.Default))
  )

  it.scoped("go on after one that throws", () =>
    Effect.gen(function* () {
      const deadlines = yield* Deadlines
      const { add, passed } = yield* setUp
      deadlines.add((yield* monotonicMillis) + 500, () => {
        throw new Error("a defect")
      })
      add("later", 1_000)
      yield* TestClock.adjust("1 seconds")
      expect(passed).toEqual(["later"])
    }).pipe(Effect.provide(Deadlines.Default))
  )

  it.scoped("wake up for an earlier one, also after an idle time", () =>
    Effect.gen(function* () {
      const { add, passed } = yield* setUp
      add("long", 60_000)
      yield* TestClock.adjust("10 millis")
      add("short", 500)
      yield* TestClock.adjust("490 millis")
      expect(passed).toEqual(["short"])
      yield* TestClock.adjust("2 minutes")
      expect(passed).toEqual(["short", "long"])
      add("after", 180_000)
      yield* TestClock.adjust("1 hour")
      expect(passed).toEqual(["short", "long", "after"])
    }).pipe(Effect.provide(Deadlines.Default))
  )

  it.scoped("cost no step of the run loop for work that ends in time", () => {
    let steps = 0
    const scheduler = new Scheduler.MixedScheduler(2_048)
    const counting: Scheduler.Scheduler = {
      scheduleTask: (task, priority, fiber) => scheduler.scheduleTask(task, priority, fiber),
      shouldYield: (fiber) => {
        steps += 1
        return scheduler.shouldYield(fiber)
      }
    }
    return Effect.gen(function* () {
      const { add } = yield* setUp
      add("first", 1_000)
      yield* TestClock.adjust("1 millis")
      const before = steps
      for (let call = 0; call < 1_000; call += 1) add("call", 1_000 + call)()
      yield* Effect.promise(() => new Promise((wake) => setTimeout(wake, 5)))
      expect(steps - before).toBeLessThan(10)
    }).pipe(Effect.provide(Deadlines.Default), Effect.withScheduler(counting))
  })
})
