/** Server-sent events to any number of tabs. What a slow tab has missed is summed up for it, so that it delays nothing. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { ActionRecord, State } from "./Protocol.ts"

/** At most so often a tab gets what has changed. */
const pace = "50 millis"
/** Tabs at the same time: one that never reads holds a few megabytes. */
const mostTabs = 32

interface Tab {
  /** Ids of actions that it has not seen in their present form, in the order of their change. */
  readonly actions: Set<number>
  state: boolean
  /** Open while there is something to send. */
  readonly news: Effect.Latch
}

const eventText = (name: "state" | "action", data: State | ActionRecord): string =>
  `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`

export const makeEvents = (source: {
  readonly state: () => State
  readonly action: (id: number) => ActionRecord | undefined
  readonly actions: () => ReadonlyArray<number>
}) => {
  const tabs = new Set<Tab>()
  const tell = (note: (tab: Tab) => void): void => {
    for (const tab of tabs) {
      note(tab)
      tab.news.unsafeOpen()
    }
  }
  const take = (tab: Tab): string => {
    const records = [...tab.actions].flatMap((id) => source.action(id) ?? [])
    const state = tab.state ? eventText("state", source.state()) : ""
    tab.state = false
    tab.actions.clear()
    tab.news.unsafeClose()
    return state + records.map((record) => eventText("action", record)).join("")
  }
  const open = Effect.acquireRelease(
    Effect.sync(() => {
      const news = Effect.unsafeMakeLatch(true)
      const tab: Tab = { actions: new Set(source.actions()), state: true, news }
      tabs.add(tab)
      return tab
    }),
    (tab) => Effect.sync(() => tabs.delete(tab))
  )
  return {
    isFull: () => tabs.size >= mostTabs,
    /** The state and all kept actions, then every change. The next part is made when the one before was taken. */
    stream: Stream.unwrapScoped(
      Effect.map(open, (tab) => {
        const next = Effect.zipRight(
          tab.news.await,
          Effect.sync(() => take(tab))
        )
        // A browser that lost the stream comes back soon.
        return Stream.concat(Stream.make("retry: 1000\n\n"), Stream.repeatEffect(Effect.delay(next, pace)))
      })
    ),
    stateChanged: (): void =>
      tell((tab) => {
        tab.state = true
      }),
    actionChanged: (id: number): void => tell(({ actions }) => actions.add(id))
  }
}

export type Events = ReturnType<typeof makeEvents>
