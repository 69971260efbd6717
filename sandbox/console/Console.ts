/** The sandbox console: a page that shows the whole system and acts as its clients. */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import type * as Scope from "effect/Scope"
import type { PageAssets } from "../ConsolePage.ts"
import type { Sandbox } from "../Run.ts"
import { makeActions, type Perform } from "./Actions.ts"
import { makeHandler } from "./ConsoleHandler.ts"
import { actionRoutes, pageRoutes, spansRoute } from "./ConsoleRoutes.ts"
import { EventStream } from "./EventStream.ts"
import { InjectedFaults } from "./InjectedFaults.ts"
import { Journal, recordOf } from "./Journal.ts"
import type { LoopbackServer } from "./LoopbackServer.ts"
import type { ActionRecord } from "./Protocol.ts"
import type { Refused } from "./Refused.ts"
import { Sessions } from "./Sessions.ts"
import { readReportTraces } from "./Spans.ts"
import { viewState } from "./StateView.ts"
import { watchUpstreams } from "./UpstreamCalls.ts"

/** Opens the console at the listener's address. It closes with the scope: streams end, and actions under way are interrupted. */
export const openConsole = (
  listener: LoopbackServer,
  sandbox: Sandbox,
  page: PageAssets
): Effect.Effect<void, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { clock, world } = sandbox
    const sessions = new Sessions(world.iam.controls, clock.now)
    const faults = new InjectedFaults(world)
    const journal: Journal = new Journal((id) => events.actionChanged(id))
    const events = yield* Effect.acquireRelease(
      Effect.sync(
        () =>
          new EventStream({
            state: () => viewState(sandbox, { sessions, faults }),
            action: (id) => {
              const entry = journal.find(id)
              return entry === undefined ? undefined : recordOf(entry)
            },
            actions: () => journal.ids()
          })
      ),
      (stream) => Effect.sync(() => stream.close())
    )
    watchUpstreams(world, journal, faults, () => events.stateChanged())
    const perform = makeActions(sandbox, { journal, sessions, faults })
    const fibers = yield* FiberSet.make<ActionRecord, Refused>()
    /** Also when its tab is closed meanwhile. */
    const performToTheEnd: Perform = (action) =>
      perform(action).pipe(
        Effect.ensuring(Effect.sync(() => events.stateChanged())),
        FiberSet.run(fibers),
        Effect.flatMap(Fiber.join)
      )
    const routes = [
      ...pageRoutes(page),
      ...actionRoutes(performToTheEnd, events),
      spansRoute((body) => {
        for (const { report, traceId } of readReportTraces(body)) journal.recordCarried(traceId, report)
      })
    ]
    listener.answerWith(makeHandler(routes, listener.url))
  })
