/** The guided tour: a bar above the real controls, which stay usable. Its buttons keep their places from step to step. */
import type { RefObject } from "preact"
import { useEffect, useRef } from "preact/hooks"
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

/** The second press of a double click does nothing. */
const once = (press: () => void) => (event: MouseEvent) => {
  if (event.detail < 2) press()
}

const Steps = ({ tour: { goTo, progress } }: { readonly tour: Tour }) => (
  <ol class="plain steps" aria-label={`Step ${progress.step + 1} of ${tourSteps.length}`}>
    {tourSteps.map(({ title }, index) => {
      const isDone = progress.done.includes(index)
      const name = `Step ${index + 1}: ${title}${isDone ? ", done" : ""}`
      return (
        <li key={title}>
          <button
            type="button"
            class={isDone ? "done" : ""}
            title={name}
            aria-label={name}
            aria-current={index === progress.step ? "step" : undefined}
            onClick={() => goTo(index)}
          />
        </li>
      )
    })}
  </ol>
)

export const TourBar = ({ tour }: { readonly tour: Tour }) => {
  const { model, say, system } = useStore()
  const { done, since, step: at } = tour.progress
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
  if (step === undefined) return null
  return (
    <aside ref={bar} class="tour" aria-label="Guided tour">
      <Steps tour={tour} />
      <div class="grow">
        <h2>
          {at + 1} of {tourSteps.length} · {step.title}
          {isDone && <span class="badge good">done</span>}
        </h2>
        <p>
          {isDone ? step.meaning : step.task}{" "}
          {step.places.map((place) => (
            <button key={place} type="button" class="link" onClick={() => showPlace(place)}>
              Go to {placeTitles[place]}
            </button>
          ))}
        </p>
        <p class="advice" role="status">
          {isDone ? "" : standing?.advice}
        </p>
      </div>
      <div class="actions">
        <button type="button" class="quiet" disabled={at === 0} onClick={once(() => tour.goTo(at - 1))}>
          Back
        </button>
        <button
          type="button"
          class={isDone ? "main next" : "quiet next"}
          onClick={once(() => (isLast ? tour.finish() : tour.goTo(at + 1)))}
        >
          {isLast ? "Finish" : isDone ? "Next step" : "Skip step"}
        </button>
        <button type="button" class="quiet" onClick={tour.close}>
          End tour
        </button>
      </div>
    </aside>
  )
}
