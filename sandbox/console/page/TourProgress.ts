/** How far the person has come in the tour. A tab remembers it; each browser opens the tour once by itself. */
import { useState } from "preact/hooks"
import { announcementOf } from "./Tour.ts"

interface TourProgress {
  readonly isOpen: boolean
  readonly step: number
  /** When the step began, by the sandbox's clock. `null`: when the page opened. */
  readonly since: number | null
  /** The steps that are done. */
  readonly done: ReadonlyArray<number>
}

const begin: TourProgress = { isOpen: true, step: 0, since: null, done: [] }

/** Without storage each visit is the first. */
const stored = <A>(use: () => A): A | null => {
  try {
    return use()
  } catch {
    return null
  }
}
const [progressName, seenName] = ["music-sandbox-progress", "music-sandbox-tour"]

const recallProgress = (): TourProgress => {
  const kept = stored(() => sessionStorage.getItem(progressName))
  // Only this page writes it.
  if (kept !== null) return JSON.parse(kept) as TourProgress
  return { ...begin, isOpen: stored(() => localStorage.getItem(seenName)) === null }
}

/** `now` is the sandbox's clock; `say` says something to screen readers. */
export const useTour = (now: () => number, say: (text: string) => void) => {
  const [progress, setProgress] = useState(recallProgress)
  const change = (next: TourProgress) => {
    setProgress(next)
    stored(() => sessionStorage.setItem(progressName, JSON.stringify(next)))
    if (!next.isOpen) stored(() => localStorage.setItem(seenName, "seen"))
  }
  const goTo = (step: number) => {
    change({ ...progress, isOpen: true, step, since: now() })
    say(announcementOf(step))
  }
  const close = () => change({ ...progress, isOpen: false })
  const open = () => {
    change({ ...progress, isOpen: true, since: progress.since ?? now() })
    say(announcementOf(progress.step))
  }
  return {
    progress,
    goTo,
    markDone: (step: number) => change({ ...progress, done: [...progress.done, step] }),
    toggle: progress.isOpen ? close : open,
    close,
    /** The next tour begins anew. */
    finish: () => change({ ...begin, isOpen: false })
  }
}

export type Tour = ReturnType<typeof useTour>
