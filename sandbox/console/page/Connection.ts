/** The way to the console's server: the stream of events, and the actions. */
import type { Action, ActionRecord, Refusal, State } from "../Protocol.ts"
import type { Change } from "./Store.ts"

/** Milliseconds until a closed stream is opened again. */
const retryPause = 1_000
/** Milliseconds without an event after which the sandbox counts as silent: its state comes more often. */
const longestSilence = 12_000
/** Milliseconds in which a new stream has sent the actions that the server keeps. */
const settlePause = 1_000

// The server is of the same build as the page: what it sends has the types of the protocol.
const parse = <A>(text: string): A => JSON.parse(text) as A

/** Opens the stream, and again whenever it ends, while the tab is visible: all tabs share six connections, and an action needs one. */
export const listen = (change: (change: Change) => void): void => {
  let source: EventSource | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  let silence: ReturnType<typeof setTimeout> | undefined
  const listenOn = () => {
    clearTimeout(silence)
    silence = setTimeout(() => change({ kind: "silent" }), longestSilence)
  }
  const open = () => {
    // Also for a sandbox that takes the connection and never answers.
    listenOn()
    source = new EventSource("events")
    source.addEventListener("open", () => {
      change({ kind: "connected" })
      clearTimeout(timer)
      timer = setTimeout(() => change({ kind: "settled" }), settlePause)
    })
    source.addEventListener("state", ({ data }) => {
      listenOn()
      change({ kind: "state", state: parse<State>(data), receivedAt: performance.now() })
    })
    source.addEventListener("action", ({ data }) =>
      change({ kind: "record", record: parse<ActionRecord>(data) })
    )
    source.addEventListener("error", () => {
      clearTimeout(silence)
      change({ kind: "lost" })
      // The browser's own pause grows; here a person waits.
      source?.close()
      clearTimeout(timer)
      timer = setTimeout(open, retryPause)
    })
  }
  const follow = () => {
    clearTimeout(timer)
    clearTimeout(silence)
    source?.close()
    if (!document.hidden) open()
  }
  document.addEventListener("visibilitychange", follow)
  follow()
}

const unreachable: Refusal = {
  message: "The console does not answer.",
  hint: "See whether the sandbox still runs, start it again (npm run sandbox), and repeat this. At the same address the page reconnects by itself; if it prints another address, open that."
}

/** Sends an action. The result is its record, or why there is none. */
export const perform = async (action: Action): Promise<ActionRecord | Refusal> => {
  try {
    const response = await fetch("actions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(action)
    })
    const text = await response.text()
    return parse<ActionRecord | Refusal>(text)
  } catch {
    return unreachable
  }
}
