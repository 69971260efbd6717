/** The moment at which a browser hides or leaves a page. */

interface EventTarget {
  readonly addEventListener?: (type: string, listener: () => void) => void
  readonly removeEventListener?: (type: string, listener: () => void) => void
}

interface Page extends EventTarget {
  readonly document?: EventTarget & { readonly visibilityState?: string }
}

/** Calls `run` when the browser hides or leaves the page; returns the function that removes the listeners. */
export const onPageHide = (run: () => void): (() => void) => {
  // The same source compiles without DOM types.
  const page = globalThis as unknown as Page
  const { document } = page
  if (document === undefined) return () => undefined
  // A hidden page may end without another event.
  const runWhenHidden = () => {
    if (document.visibilityState === "hidden") run()
  }
  page.addEventListener?.("pagehide", run)
  document.addEventListener?.("visibilitychange", runWhenHidden)
  return () => {
    page.removeEventListener?.("pagehide", run)
    document.removeEventListener?.("visibilitychange", runWhenHidden)
  }
}
