/** The console beside the real server and the simulators, used as its page uses it: over sockets. */
import { request as sendRequest } from "node:http"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { expect } from "vitest"
import type { Action, ActionRecord, Call, Refusal, Session, State } from "../../sandbox/console/Protocol.ts"
import { startTestSandboxWithConsole } from "../world/Sandbox.ts"
import { sharingLive } from "../world/Test.ts"
import { awaited, eventually } from "../world/Waiting.ts"

/** One tab: what the stream of events has brought so far. */
export interface Tab {
  /** The names of all events in the order of their arrival. */
  readonly events: Array<string>
  state: State | undefined
  readonly actions: Map<number, ActionRecord>
  readonly close: () => void
}

/** Opens `GET /events`; it closes with the scope. */
export const openTab = (url: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const stop = new AbortController()
      const response = await fetch(`${url}/events`, { signal: stop.signal })
      expect(response.headers.get("content-type")).toBe("text/event-stream")
      const close = () => stop.abort()
      const tab: Tab = { events: [], state: undefined, actions: new Map(), close }
      const take = (part: string) => {
        const [, name, data = ""] = /^event: (\w+)\ndata: (.*)$/.exec(part) ?? []
        if (name === undefined) return
        tab.events.push(name)
        if (name === "state") tab.state = JSON.parse(data) as State
        else {
          const record = JSON.parse(data) as ActionRecord
          tab.actions.set(record.id, record)
        }
      }
      const read = async () => {
        let rest = ""
        const decoder = new TextDecoder()
        for await (const chunk of response.body ?? []) {
          const parts = (rest + decoder.decode(chunk, { stream: true })).split("\n\n")
          rest = parts.pop() ?? ""
          for (const part of parts) take(part)
        }
      }
      // It ends with the tab or with the console.
      void read().catch(() => undefined)
      return tab
    }),
    (tab) => Effect.sync(() => tab.close())
  )

interface Sent {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}
interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly text: string
}

/** Sends a request as it is: with its own Host and Origin, which `fetch` would not send. */
export const send = (url: string, { body, headers = {}, method = "GET" }: Sent = {}) =>
  Effect.async<Answer>((resume) => {
    // A connection of its own: the console may end a kept one just then.
    const sent = sendRequest(url, { method, headers, agent: false }, async (response) => {
      let text = ""
      for await (const chunk of response.setEncoding("utf8")) text += chunk
      resume(Effect.succeed({ status: response.statusCode ?? 0, headers: response.headers, text }))
    })
    // A server that refuses a body may close before the rest is sent; its answer has arrived by then.
    sent.on("error", () => {})
    sent.end(body)
  })

/** An arrow as `iam POST /path 200`, with its fault and whether it came later. */
export const arrowOf = ({ fault, from, isLater, method, path, status, to }: Call): string =>
  [`${from} -> ${to}`, method, path, String(status), fault ?? "", isLater ? "later" : ""]
    .filter((part) => part !== "")
    .join(" ")

const start = Effect.gen(function* () {
  const sandbox = yield* startTestSandboxWithConsole
  const url = sandbox.consoleUrl
  const tab = yield* openTab(url)
  yield* eventually("the first state", () => tab.state !== undefined)

  const headers = { "content-type": "application/json" }
  const post = (status: number, body: unknown) =>
    Effect.map(send(`${url}/actions`, { method: "POST", headers, body: JSON.stringify(body) }), (answer) => {
      expect(answer.status, answer.text).toBe(status)
      return JSON.parse(answer.text)
    })
  const act = (action: Action): Effect.Effect<ActionRecord> => post(200, action)
  const refused = (action: unknown): Effect.Effect<Refusal> => post(400, action)

  const seen = <A>(what: string, read: () => A | undefined, holds: (value: A) => boolean) =>
    Effect.map(
      awaited(what, Effect.sync(read), (value) => value !== undefined && holds(value)),
      (value) => value as A
    )
  const stateWith = (what: string, holds: (state: State) => boolean) => seen(what, () => tab.state, holds)
  const recordWith = (what: string, { id }: ActionRecord, holds: (record: ActionRecord) => boolean) =>
    seen(what, () => tab.actions.get(id), holds)

  const login = (actor = "si:deejay", plane = "production"): Effect.Effect<Session> =>
    Effect.gen(function* () {
      const known = new Set(tab.state?.sessions.map(({ id }) => id))
      const minted = yield* act({ kind: "mint", plane, actor })
      const { slt } = JSON.parse(minted.exchange?.responseBody ?? "") as { slt: string }
      yield* act({ kind: "login", plane, slt })
      const isNew = ({ id }: Session) => !known.has(id)
      const { sessions } = yield* stateWith("a new session", (state) => state.sessions.some(isNew))
      return sessions.find(isNew) as Session
    })

  return { ...sandbox, url, tab, act, refused, stateWith, recordWith, login }
})

/** One console for all tests of a group. */
export class TestConsole extends Context.Tag("test/TestConsole")<
  TestConsole,
  Effect.Effect.Success<typeof start>
>() {}
export const sharingConsole = sharingLive(Layer.scoped(TestConsole, start))
