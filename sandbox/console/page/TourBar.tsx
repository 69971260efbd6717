/** The guided tour: a bar above the real controls, which stay usable. */
import { useEffect, useState } from "preact/hooks"
import { useStore } from "./Store.ts"
import { isStepDone, tourSteps } from "./Tour.ts"

export interface TourProgress {
  readonly step: number
  /** When the step began, by the sandbox's clock. `null`: when the page opened. */
  readonly since: number | null
}

interface TourBarProps {
  readonly progress: TourProgress
  readonly onStep: (step: number) => void
  readonly onClose: () => void
}

const showPlace = (id: string) => {
  const panel = document.getElementById(id)
  panel?.focus({ preventScroll: true })
  panel?.scrollIntoView({ block: "start" })
}

export const TourBar = ({ onClose, onStep, progress: { since, step: at } }: TourBarProps) => {
  const { model, say, system } = useStore()
  const [done, setDone] = useState<ReadonlySet<number>>(new Set())
  const step = tourSteps[at]
  const isDone = done.has(at)
  const isLast = at === tourSteps.length - 1
  // A sandbox that was started again may be behind the one before.
  const now = system.now
  const isNowDone =
    step !== undefined && isStepDone(step, Math.min(since ?? model.openedAt, now), model.records)
  useEffect(() => {
    if (step === undefined || !isNowDone || isDone) return
    setDone(new Set([...done, at]))
    say(`Step ${at + 1} is done. ${step.meaning}`)
  }, [isNowDone])
  if (step === undefined) return null
  return (
    <aside class="tour" aria-label="Guided tour">
      <ol class="plain steps" aria-label={`Step ${at + 1} of ${tourSteps.length}`}>
        {tourSteps.map(({ title }, index) => (
          <li
            key={title}
            class={done.has(index) ? "done" : ""}
            aria-current={index === at ? "step" : undefined}
          >
            <span class="hidden">
              {title}
              {done.has(index) ? ", done" : ""}
            </span>
          </li>
        ))}
      </ol>
      <div class="grow">
        <h2>
          {at + 1} of {tourSteps.length} · {step.title}
          {isDone && <span class="badge good">done</span>}
        </h2>
        <p>{isDone ? step.meaning : step.task}</p>
      </div>
      <div class="actions">
        {!isDone &&
          step.places.map((place) => (
            <button key={place} type="button" class="quiet" onClick={() => showPlace(place)}>
              Go to {document.getElementById(`${place}-title`)?.textContent ?? place}
            </button>
          ))}
        {isDone && !isLast && (
          <button type="button" class="main" onClick={() => onStep(at + 1)}>
            Next step
          </button>
        )}
        {!isDone && !isLast && (
          <button type="button" class="quiet" onClick={() => onStep(at + 1)}>
            Skip step
          </button>
        )}
        <button type="button" class={isDone && isLast ? "main" : "quiet"} onClick={onClose}>
          {isDone && isLast ? "Finish" : "End tour"}
        </button>
      </div>
    </aside>
  )
}
