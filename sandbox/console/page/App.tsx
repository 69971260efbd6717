/** The page: its store, its frame and what works everywhere on it. */
import { useEffect, useReducer, useRef, useState } from "preact/hooks"
import type { Action, State } from "../Protocol.ts"
import { Callers } from "./Callers.tsx"
import { listen, perform } from "./Connection.ts"
import { Forms } from "./Forms.tsx"
import { Faults } from "./Faults.tsx"
import { sentence } from "./Format.ts"
import { useFocusKeeper } from "./FocusKeeper.ts"
import { Header } from "./Header.tsx"
import { Help } from "./Help.tsx"
import { Journal, ResultBadge } from "./Journal.tsx"
import { lessonOf } from "./Lesson.ts"
import { recall, remember } from "./Memory.ts"
import { faultLabels, faultLeft, faultTarget } from "./Names.ts"
import { Foreign } from "./Parts.tsx"
import { useKeys } from "./Shortcuts.ts"
import {
  type Change,
  firstAction,
  initial,
  isTesting,
  type Model,
  reduce,
  shownRecord,
  StoreContext,
  timeOf,
  tingName
} from "./Store.ts"
import { TourBar } from "./TourBar.tsx"
import { tourSteps } from "./Tour.ts"
import { useTour } from "./TourProgress.ts"
import { Arrivals } from "./Arrivals.tsx"

const panels = ["callers", "do", "journal", "world", "faults"]

const focusPanel = (id: string) => document.getElementById(id)?.focus()

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
const LastResult = ({ model }: { readonly model: Model }) => {
  const record = model.records[0]
  return record === undefined ? null : (
    <nav class="last" aria-label="Last action">
      <ResultBadge record={record} />
      <span class="grow">
        <Foreign text={record.title} />
      </span>
      <a href="#journal">What happened</a>
    </nav>
  )
}

/** Says which tings arrived since the last state. */
const useArrivals = (system: State | null, say: (text: string) => void) => {
  const seen = useRef<ReadonlySet<string> | null>(null)
  useEffect(() => {
    if (system === null) return
    const names = new Set(system.inbox.map(({ id }) => tingName(id)))
    const before = seen.current
    seen.current = names
    const arrived = before === null ? [] : system.inbox.filter(({ id }) => !before.has(tingName(id)))
    for (const { key, type } of arrived) say(`A ting arrived: ${type}, ${key}.`)
  }, [system])
}

export const App = () => {
  const [model, change] = useReducer<Model, Change>(reduce, initial)
  const [said, say] = useState("")
  const [hasHelp, setHelp] = useState(false)
  const [hasShortcuts, setShortcuts] = useState(recall("shortcuts") !== "off")
  const { records, system } = model
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

  const nextPlane = () => {
    const planes = system?.planes ?? []
    const at = planes.findIndex(({ id }) => id === model.plane)
    const next = planes[(at + 1) % planes.length]
    if (next === undefined) return
    change({ kind: "plane", plane: next.id })
    say(`Plane: ${next.name}.`)
  }

  const repeatShown = () => {
    const shown = shownRecord(model)
    if (shown === undefined || shown.exchange === null) return say("There is nothing to send again.")
    void act({ kind: "repeat", action: shown.id }).then((problem) => {
      if (problem !== null) say(`${sentence(problem.message)} ${sentence(problem.hint)}`)
    })
  }

  useKeys((key) => {
    if (key === "Escape" && progress.isOpen) {
      tour.close()
      return true
    }
    if (!hasShortcuts) return false
    const panel = panels[Number(key) - 1]
    if (panel !== undefined) focusPanel(panel)
    else if (key === "p") nextPlane()
    else if (key === "r") repeatShown()
    else if (key === "t") tour.toggle()
    else if (key === "?") setHelp(true)
    else return false
    return true
  })

  if (system === null)
    return (
      <main class="waiting">
        <h1>music-backend sandbox</h1>
        <p role="status">
          {model.connection === "lost"
            ? "The console does not answer. Start the sandbox (npm run sandbox): at the same address this page connects by itself; if it prints another address, open that."
            : "Connecting to the sandbox…"}
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
        {model.connection === "lost" && (
          <p class="strip" role="alert">
            <strong>The sandbox does not answer.</strong> What you see is its last state. Start it again (npm
            run sandbox): at the same address this page reconnects by itself; if it prints another address,
            open that.
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
        <LastResult model={model} />
      </div>
      {hasHelp && (
        <Help
          onClose={() => setHelp(false)}
          hasShortcuts={hasShortcuts}
          onShortcuts={(wanted) => {
            setShortcuts(wanted)
            remember("shortcuts", wanted ? "on" : "off")
          }}
        />
      )}
    </StoreContext.Provider>
  )
}
