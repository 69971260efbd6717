/** The guided tour: a bar above the real controls, which stay usable. */
import type { RefObject } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { type Place, placeTitles } from "./Names.ts"
import { useStore } from "./Store.ts"
import { standingOf, tourSteps } from "./Tour.ts"
import type { Tour } from "./TourProgress.ts"

const showPlace = (place: Place) => {
  const element = document.getElementById(place)
  element?.focus({ preventScroll: true })
  element?.scrollIntoView({ block: "start" })
}

/** What the page scrolls to must not lie below the bar: the style sheet knows its height. */
const useHeight = (bar: RefObject<HTMLElement | null>) =>
  useEffect(() => {
    const { style } = document.documentElement
    const observer = new ResizeObserver(() =>
      style.setProperty("--tour-height", `${bar.current?.offsetHeight ?? 0}px`)
    )
    if (bar.current !== null) observer.observe(bar.current)
    return () => {
      observer.disconnect()
      style.removeProperty("--tour-height")
    }
  }, [])

const Steps = ({ at, done }: { readonly at: number; readonly done: ReadonlyArray<number> }) => (
  <ol class="plain steps" aria-label={`Step ${at + 1} of ${tourSteps.length}`}>
    {tourSteps.map(({ title }, index) => (
      <li
        key={title}
        class={done.includes(index) ? "done" : ""}
        aria-current={index === at ? "step" : undefined}
      >
        <span class="hidden">
          {title}
          {done.includes(index) ? ", done" : ""}
        </span>
      </li>
    ))}
  </ol>
)

export const TourBar = ({ tour }: { readonly tour: Tour }) => {
  const { model, say, system } = useStore()
  const { done, since, step: at } = tour.progress
  const [isFolded, fold] = useState(false)
  const bar = useRef<HTMLElement>(null)
  useHeight(bar)
  const step = tourSteps[at]
  const isDone = done.includes(at)
  const isLast = at === tourSteps.length - 1
  // A sandbox that was started again may be behind the one before.
  const begin = Math.min(since ?? model.openedAt, system.now)
  const standing = step === undefined ? undefined : standingOf(step, begin, model.records, system.sessions)
  const isNowDone = standing?.isDone === true
  useEffect(() => {
    if (step === undefined || !isNowDone || isDone) return
    tour.markDone(at)
    say(`Step ${at + 1} is done. ${step.meaning}`)
  }, [isNowDone])
  // A new task is to be read.
  useEffect(() => fold(false), [at])
  if (step === undefined) return null
  return (
    <aside ref={bar} class={`tour ${isFolded ? "folded" : ""}`} aria-label="Guided tour">
      <Steps at={at} done={done} />
      <div class="grow">
        <h2>
          {at + 1} of {tourSteps.length} · {step.title}
          {isDone && <span class="badge good">done</span>}
        </h2>
        <div class="text">
          <p>{isDone ? step.meaning : step.task}</p>
          <p class="advice" role="status">
            {isDone ? "" : standing?.advice}
          </p>
        </div>
      </div>
      <div class="actions">
        {!isDone &&
          step.places.map((place) => (
            <button key={place} type="button" class="quiet" onClick={() => showPlace(place)}>
              Go to {placeTitles[place]}
            </button>
          ))}
        {isDone && !isLast && (
          <button type="button" class="main" onClick={() => tour.goTo(at + 1)}>
            Next step
          </button>
        )}
        {!isDone && !isLast && (
          <button type="button" class="quiet" onClick={() => tour.goTo(at + 1)}>
            Skip step
          </button>
        )}
        <button
          type="button"
          class={isDone && isLast ? "main" : "quiet"}
          onClick={isDone && isLast ? tour.finish : tour.close}
        >
          {isDone && isLast ? "Finish" : "End tour"}
        </button>
        <button type="button" class="quiet fold" aria-expanded={!isFolded} onClick={() => fold(!isFolded)}>
          {isFolded ? "Show text" : "Hide text"}
        </button>
      </div>
    </aside>
  )
}
