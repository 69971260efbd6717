/** Single keys that act anywhere on the page, except while a person types. */
import { useEffect, useRef } from "preact/hooks"

const takesText = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  target.closest("input:not([type=radio], [type=checkbox]), textarea, select, dialog") !== null

/** Calls `onKey` with the key, and stops it from doing anything else when that returns true. */
export const useKeys = (onKey: (key: string) => boolean): void => {
  const latest = useRef(onKey)
  latest.current = onKey
  useEffect(() => {
    const listener = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return
      // There, Escape closes a list or a dialog.
      if (takesText(event.target)) return
      if (latest.current(event.key)) event.preventDefault()
    }
    document.addEventListener("keydown", listener)
    return () => document.removeEventListener("keydown", listener)
  }, [])
}
