/** The sandbox console: a page that shows the whole system and acts as its clients. */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import type { PageAssets } from "../ConsolePage.ts"
import type { Sandbox } from "../Run.ts"
import { makeActions, type Perform } from "./Actions.ts"
import { type Events, makeEvents } from "./EventStream.ts"
import { makeInjectedFaults } from "./InjectedFaults.ts"
import { Journal, recordOf } from "./Journal.ts"
import { watchPrograms } from "./Programs.ts"
import type { ActionRecord } from "./Protocol.ts"
import type { Refused } from "./Refused.ts"
import { type LoopbackServer, makeListener } from "./Server.ts"
import { viewState } from "./StateView.ts"
import { watchUpstreams } from "./UpstreamCalls.ts"

/** After so long a tab gets the state again: sessions expire while nothing happens, and a page learns that a silent sandbox has stopped. */
const heartbeat = "5 seconds"

/** Opens the console at the listener's address. It closes with the scope: actions under way are interrupted. */
export const openConsole = (
  listener: LoopbackServer,
  sandbox: Sandbox,
  page: PageAssets
): Effect.Effect<void, never, Scope.Scope> =>
  Effect.gen(function* () {
    const faults = makeInjectedFaults(sandbox.world)
    const journal: Journal = new Journal((id) => events.actionChanged(id))
    const events: Events = makeEvents({
      state: () => viewState(sandbox, faults),
      action: (id) => {
        const entry = journal.find(id)
        return entry === undefined ? undefined : recordOf(entry)
      },
      actions: () => journal.ids()
    })
    const changed = Effect.sync(events.stateChanged)
    yield* Effect.forkScoped(Effect.repeat(changed, Schedule.spaced(heartbeat)))
    watchUpstreams(sandbox.world, journal, faults, events.stateChanged)
    yield* watchPrograms(sandbox, journal, events.stateChanged)
    sandbox.onReport((traceId, report) => journal.recordCarried(traceId, report))
    const act = makeActions(sandbox, { journal, faults })
    const fibers = yield* FiberSet.make<ActionRecord, Refused>()
    /** Also when its tab is closed meanwhile. */
    const perform: Perform = (action) =>
      act(action).pipe(Effect.ensuring(changed), FiberSet.run(fibers), Effect.flatMap(Fiber.join))
    listener.answerWith(yield* makeListener({ own: listener.url, page, perform, events }))
  })
