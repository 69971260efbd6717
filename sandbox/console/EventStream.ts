/** Server-sent events to any number of tabs. What a slow tab has missed is summed up for it, so that it delays nothing. */
import type { ServerResponse } from "node:http"
import type { ActionRecord, State } from "./Protocol.ts"

/** Milliseconds: at most so often a tab gets what has changed. */
const pace = 50
/** After so long without a change a tab gets the state again. */
const heartbeatMilliseconds = 5_000
/** Tabs at the same time: one that never reads holds a few megabytes. */
const mostTabs = 32

interface Tab {
  readonly response: ServerResponse
  /** Ids of actions that it has not seen in their present form, in the order of their change. */
  readonly actions: Set<number>
  state: boolean
}

const eventText = (name: "state" | "action", data: State | ActionRecord): string =>
  `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`

export class EventStream {
  private readonly tabs = new Set<Tab>()
  private readonly source: {
    readonly state: () => State
    readonly action: (id: number) => ActionRecord | undefined
    readonly actions: () => ReadonlyArray<number>
  }
  private timer: NodeJS.Timeout | undefined
  private readonly heartbeat: NodeJS.Timeout

  constructor(source: EventStream["source"]) {
    this.source = source
    // Sessions also expire while nothing happens, and a page learns that a silent sandbox has stopped.
    this.heartbeat = setInterval(() => this.stateChanged(), heartbeatMilliseconds)
  }

  /** Begins a stream: the state and all kept actions, then every change. False when there are too many already. */
  open(response: ServerResponse): boolean {
    if (this.tabs.size >= mostTabs) return false
    const tab: Tab = { response, actions: new Set(this.source.actions()), state: true }
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" })
    // A browser that lost the stream comes back soon.
    response.write("retry: 1000\n\n")
    response.on("drain", () => this.schedule())
    response.once("close", () => this.tabs.delete(tab))
    this.tabs.add(tab)
    this.send(tab, this.stateText())
    return true
  }

  stateChanged(): void {
    for (const tab of this.tabs) tab.state = true
    this.schedule()
  }

  actionChanged(id: number): void {
    for (const tab of this.tabs) tab.actions.add(id)
    this.schedule()
  }

  close(): void {
    clearInterval(this.heartbeat)
    clearTimeout(this.timer)
    for (const { response } of this.tabs) response.end()
  }

  private schedule(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined
      this.flush()
    }, pace)
  }

  private flush(): void {
    const ready = [...this.tabs].filter(({ response }) => !response.writableNeedDrain)
    const state = ready.some((tab) => tab.state) ? this.stateText() : ""
    for (const tab of ready) this.send(tab, state)
  }

  private stateText(): string {
    return eventText("state", this.source.state())
  }

  private send(tab: Tab, state: string): void {
    const records = [...tab.actions].flatMap((id) => this.source.action(id) ?? [])
    const text = (tab.state ? state : "") + records.map((record) => eventText("action", record)).join("")
    tab.state = false
    tab.actions.clear()
    if (text !== "") tab.response.write(text)
  }
}
