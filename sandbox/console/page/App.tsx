/** The page: its store, its frame and what works everywhere on it. */
import { useEffect, useReducer, useRef, useState } from "preact/hooks"
import type { Action, State } from "../Protocol.ts"
import { Arrivals } from "./Arrivals.tsx"
import { Callers } from "./Callers.tsx"
import { listen, perform } from "./Connection.ts"
import { Faults } from "./Faults.tsx"
import { useFocusKeeper } from "./FocusKeeper.ts"
import { Forms } from "./Forms.tsx"
import { Header } from "./Header.tsx"
import { Help } from "./Help.tsx"
import { Journal, ResultBadge } from "./Journal.tsx"
import { lessonOf } from "./Lesson.ts"
import { faultLabels, faultLeft, faultTarget } from "./Names.ts"
import { Foreign } from "./Parts.tsx"
import {
  type Change,
  firstAction,
  initial,
  isTesting,
  type Model,
  reduce,
  StoreContext,
  timeOf,
  tingName
} from "./Store.ts"
import { tourSteps } from "./Tour.ts"
import { TourBar } from "./TourBar.tsx"
import { useTour } from "./TourProgress.ts"

/** What misbehaves on purpose, where it cannot be overlooked. */
const FaultStrip = ({ system }: { readonly system: State }) =>
  system.faults.length === 0 ? null : (
    <section class="strip" aria-label="Active faults">
      <strong>Faults are active.</strong>{" "}
      {system.faults.map((fault) => (
        <span key={fault.id}>
          {faultTarget(fault)}: {faultLabels[fault.fault]}, {faultLeft(fault)}
        </span>
      ))}
      <a href="#faults">Show faults</a>
    </section>
  )

/** On a narrow screen what happened is far from the button that caused it. */
const LastResult = ({ records: [record] }: Model) =>
  record === undefined ? null : (
    <nav class="last" aria-label="Last action">
      <ResultBadge record={record} />
      <span class="grow">
        <Foreign text={record.title} />
      </span>
      <a href="#journal">What happened</a>
    </nav>
  )

/** Says which tings arrived since the last state. */
const useArrivals = (system: State | null, say: (text: string) => void) => {
  const seen = useRef<ReadonlySet<string> | null>(null)
  useEffect(() => {
    if (system === null) return
    const before = seen.current
    seen.current = new Set(system.inbox.map(({ id }) => tingName(id)))
    const arrived = before === null ? [] : system.inbox.filter(({ id }) => !before.has(tingName(id)))
    for (const { key, type } of arrived) say(`A ting arrived: ${type}, ${key}.`)
  }, [system])
}

const again =
  "Start it again (npm run sandbox): at the same address this page connects by itself; if it prints another address, open that."

export const App = () => {
  const [model, change] = useReducer<Model, Change>(reduce, initial)
  const [said, say] = useState("")
  const [hasHelp, setHelp] = useState(false)
  const { connection, records, system } = model
  const tour = useTour(() => timeOf(model), say)
  const { progress } = tour

  useEffect(() => listen(change), [])
  useArrivals(system, say)
  useFocusKeeper()

  const act = async (action: Action) => {
    change({ kind: "pick", record: null })
    const result = await perform(action)
    if ("message" in result) return result
    change({ kind: "record", record: result })
    const status = result.exchange === null ? "" : ` ${result.exchange.status ?? "no answer"}.`
    say(`${result.title}.${status} ${lessonOf(result, firstAction(result, records))}`)
    return null
  }

  if (system === null)
    return (
      <main class="waiting">
        <h1>music-backend sandbox</h1>
        <p role="status">
          {connection === "connecting"
            ? "Connecting to the sandbox…"
            : `The console does not answer. ${again}`}
        </p>
      </main>
    )

  return (
    <StoreContext.Provider value={{ model, system, change, act, say }}>
      <div class="hidden" role="status">
        {said}
      </div>
      <a class="skip" href="#callers">
        To the controls
      </a>
      <div
        class={`frame ${isTesting(model) ? "testing" : "production"}`}
        data-tour={progress.isOpen ? tourSteps[progress.step]?.places.join(" ") : ""}
      >
        <Header onTour={tour.toggle} onHelp={() => setHelp(true)} />
        {(connection === "lost" || connection === "silent") && (
          <p class="strip" role="alert">
            <strong>The sandbox does not answer.</strong> What you see is its last state.{" "}
            {connection === "lost" ? again : "It is stopped or busy: nothing came from it for a while."}
          </p>
        )}
        <FaultStrip system={system} />
        {progress.isOpen && <TourBar tour={tour} />}
        <main>
          <div class="column">
            <Callers />
            <Forms />
          </div>
          <Journal />
          <div class="column">
            <Arrivals />
            <Faults />
          </div>
        </main>
        <LastResult {...model} />
      </div>
      {hasHelp && <Help onClose={() => setHelp(false)} />}
    </StoreContext.Provider>
  )
}
