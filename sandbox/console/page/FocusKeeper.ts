/** Keeps the focus near when what had it is removed, such as an SLT that a login used. */
import { useEffect } from "preact/hooks"

const focusable = "button:not([tabindex='-1']), a[href], input, select, textarea, summary"

const ancestorsOf = (element: Element): ReadonlyArray<Element> => {
  const parent = element.parentElement
  return parent === null ? [] : [parent, ...ancestorsOf(parent)]
}

const keepFocus = (): (() => void) => {
  let last: HTMLElement | null = null
  let around: ReadonlyArray<Element> = []
  const remember = ({ target }: FocusEvent) => {
    if (!(target instanceof HTMLElement)) return
    last = target
    around = ancestorsOf(target)
  }
  /** A person who presses on nothing gives the focus up. */
  const forget = () => {
    last = null
  }
  const observer = new MutationObserver(() => {
    if (last === null || document.activeElement !== document.body) return
    if (last.isConnected) return last.focus()
    const next = around
      .filter(({ isConnected }) => isConnected)
      .map((element) => element.querySelector<HTMLElement>(focusable))
      .find((element) => element !== null)
    next?.focus({ preventScroll: true })
  })
  document.addEventListener("focusin", remember)
  document.addEventListener("pointerdown", forget)
  observer.observe(document.body, { childList: true, subtree: true })
  return () => {
    document.removeEventListener("focusin", remember)
    document.removeEventListener("pointerdown", forget)
    observer.disconnect()
  }
}

export const useFocusKeeper = (): void => useEffect(keepFocus, [])
