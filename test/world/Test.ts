/** Vitest's `it` with Effect: a test is a generator, or a function that returns an effect. */
import * as vitest from "@effect/vitest"
import { Effect, type Layer, type Scope, type TestServices } from "effect"
import type { YieldWrap } from "effect/Utils"
import { test } from "vitest"

type Step<R> = YieldWrap<Effect.Effect<unknown, unknown, R>>
export type Body<R, Arguments extends ReadonlyArray<unknown>> = (
  ...values: Arguments
) => Generator<Step<R>, unknown, never> | Effect.Effect<unknown, unknown, R>

interface Tester<R> {
  (name: string, body: Body<R, [vitest.TestContext]>, timeout?: number): void
  readonly each: <T>(cases: ReadonlyArray<T>) => (name: string, body: Body<R, [T]>, timeout?: number) => void
}

export const toEffect =
  <R, Arguments extends ReadonlyArray<unknown>>(body: Body<R, Arguments>) =>
  (...values: Arguments): Effect.Effect<unknown, unknown, R> => {
    const made = body(...values)
    return Effect.isEffect(made) ? made : Effect.gen(() => made)
  }

const takeGenerators = <R>(tester: vitest.Vitest.Tester<R>): Tester<R> =>
  Object.assign(
    (name: string, body: Body<R, [vitest.TestContext]>, timeout?: number) =>
      tester(name, toEffect(body), timeout),
    {
      each:
        <T>(cases: ReadonlyArray<T>) =>
        (name: string, body: Body<R, [T]>, timeout?: number) =>
          tester.each(cases)(name, (value) => toEffect(body)(value), timeout)
    }
  )

/** Under Effect's test clock, or under the real one (`live`); `scoped` releases at the end of the test what the test acquired. */
export const it = Object.assign(test.extend({}), {
  effect: takeGenerators(vitest.effect),
  scoped: takeGenerators(vitest.scoped),
  live: takeGenerators(vitest.live),
  scopedLive: takeGenerators(vitest.scopedLive)
})

interface SharedIt<R> {
  readonly effect: Tester<R | TestServices.TestServices>
  readonly scoped: Tester<R | Scope.Scope | TestServices.TestServices>
}

/** One world for the tests of a group, which must not disturb each other. It ends with the group. */
export const sharing =
  <R, E>(layer: Layer.Layer<R, E>) =>
  (name: string, tests: (it: SharedIt<R>) => void): void =>
    vitest.layer(layer)(name, (shared) =>
      tests({ effect: takeGenerators(shared.effect), scoped: takeGenerators(shared.scoped) })
    )

/** The same under the real clock. */
export const sharingLive =
  <R, E>(layer: Layer.Layer<R, E>) =>
  (name: string, tests: (it: Tester<R | Scope.Scope>) => void): void =>
    vitest.layer(layer, { excludeTestServices: true })(name, ({ scoped }) => tests(takeGenerators(scoped)))
