/** The sandbox console: a page that shows the whole system and acts as its clients. */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import type * as Scope from "effect/Scope"
import type { PageAssets } from "../ConsolePage.ts"
import type { Sandbox } from "../Run.ts"
import { makeActions, type Perform } from "./Actions.ts"
import { EventStream } from "./EventStream.ts"
import { InjectedFaults } from "./InjectedFaults.ts"
import { Journal, recordOf } from "./Journal.ts"
import { watchPrograms } from "./Programs.ts"
import type { ActionRecord } from "./Protocol.ts"
import type { Refused } from "./Refused.ts"
import { type LoopbackServer, makeListener } from "./Server.ts"
import { viewState } from "./StateView.ts"
import { watchUpstreams } from "./UpstreamCalls.ts"

/** Opens the console at the listener's address. It closes with the scope: streams end, and actions under way are interrupted. */
export const openConsole = (
  listener: LoopbackServer,
  sandbox: Sandbox,
  page: PageAssets
): Effect.Effect<void, never, Scope.Scope> =>
  Effect.gen(function* () {
    const faults = new InjectedFaults(sandbox.world)
    const journal: Journal = new Journal((id) => events.actionChanged(id))
    const events = yield* Effect.acquireRelease(
      Effect.sync(
        () =>
          new EventStream({
            state: () => viewState(sandbox, faults),
            action: (id) => {
              const entry = journal.find(id)
              return entry === undefined ? undefined : recordOf(entry)
            },
            actions: () => journal.ids()
          })
      ),
      (stream) => Effect.sync(() => stream.close())
    )
    const onChange = () => events.stateChanged()
    watchUpstreams(sandbox.world, journal, faults, onChange)
    yield* watchPrograms(sandbox, journal, onChange)
    sandbox.onReport((traceId, report) => journal.recordCarried(traceId, report))
    const act = makeActions(sandbox, { journal, faults })
    const fibers = yield* FiberSet.make<ActionRecord, Refused>()
    /** Also when its tab is closed meanwhile. */
    const perform: Perform = (action) =>
      act(action).pipe(
        Effect.ensuring(Effect.sync(onChange)),
        FiberSet.run(fibers),
        Effect.flatMap(Fiber.join)
      )
    listener.answerWith(yield* makeListener({ own: listener.url, page, perform, events }))
  })
