/** The console beside the real server and the simulators, used as its page uses it: over sockets. */
import { request as sendRequest } from "node:http"
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Action, ActionRecord, Call, Refusal, Session, State } from "../../sandbox/console/Protocol.ts"
import { startTestSandboxWithConsole } from "./Sandbox.ts"
import { eventually } from "./Waiting.ts"

/** One tab: what the stream of events has brought so far. */
export interface Tab {
  /** The names of all events in the order of their arrival. */
  readonly events: Array<string>
  state: State | undefined
  readonly actions: Map<number, ActionRecord>
  ended: boolean
  readonly close: () => void
}

/** Opens `GET /events`; it closes with the scope. */
export const openTab = (url: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const stop = new AbortController()
      const response = await fetch(`${url}/events`, { signal: stop.signal })
      expect(response.status).toBe(200)
      expect(response.headers.get("content-type")).toBe("text/event-stream")
      const tab: Tab = {
        events: [],
        state: undefined,
        actions: new Map(),
        ended: false,
        close: () => stop.abort()
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
      void read().then(
        () => {
          tab.ended = true
        },
        () => {
          tab.ended = true
        }
      )
      return tab
    }),
    (tab) => Effect.sync(() => tab.close())
  )

/** Sends a request as it is: with its own Host and Origin, which `fetch` would not send. */
export const send = (
  url: string,
  options: {
    readonly method?: string
    readonly headers?: Readonly<Record<string, string>>
    readonly body?: string
  } = {}
) =>
  Effect.async<{
    readonly status: number
    readonly headers: Readonly<Record<string, unknown>>
    readonly text: string
  }>((resume) => {
    const { body, headers = {}, method = "GET" } = options
    const sent = sendRequest(url, { method, headers }, (response) => {
      let text = ""
      response.setEncoding("utf8")
      response.on("data", (chunk: string) => {
        text += chunk
      })
      response.on("end", () =>
        resume(Effect.succeed({ status: response.statusCode ?? 0, headers: response.headers, text }))
      )
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

export const startTestConsole = Effect.gen(function* () {
  const sandbox = yield* startTestSandboxWithConsole
  const url = sandbox.consoleUrl
  const tab = yield* openTab(url)
  yield* eventually("the first state", () => tab.state !== undefined)

  const post = (body: unknown) =>
    send(`${url}/actions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body)
    })

  /** Carries out an action that the console accepts. */
  const act = (action: Action): Effect.Effect<ActionRecord> =>
    Effect.map(post(action), ({ status, text }) => {
      expect(`${status} ${text}`).toMatch(/^200 /)
      return JSON.parse(text) as ActionRecord
    })

  /** The refusal of an action. */
  const refused = (action: unknown): Effect.Effect<Refusal> =>
    Effect.map(post(action), ({ status, text }) => {
      expect(status).toBe(400)
      return JSON.parse(text) as Refusal
    })

  /** Waits for the state that satisfies the condition. */
  const stateWith = (what: string, holds: (state: State) => boolean): Effect.Effect<State> =>
    Effect.gen(function* () {
      const read = () => tab.state
      yield* eventually(
        what,
        () => {
          const state = read()
          return state !== undefined && holds(state)
        },
        () => JSON.stringify(read())
      )
      return read() as State
    })

  /** Waits until the record of an action satisfies the condition. */
  const recordWith = (
    what: string,
    { id }: ActionRecord,
    holds: (record: ActionRecord) => boolean
  ): Effect.Effect<ActionRecord> =>
    Effect.gen(function* () {
      yield* eventually(
        what,
        () => {
          const record = tab.actions.get(id)
          return record !== undefined && holds(record)
        },
        () => JSON.stringify(tab.actions.get(id)?.calls)
      )
      return tab.actions.get(id) as ActionRecord
    })

  const login = (actor = "si:deejay", plane = "production"): Effect.Effect<Session> =>
    Effect.gen(function* () {
      const known = new Set(tab.state?.sessions.map(({ id }) => id))
      const minted = yield* act({ kind: "mint", plane, actor })
      const { slt } = JSON.parse(minted.exchange?.responseBody ?? "") as { slt: string }
      yield* act({ kind: "login", plane, slt })
      const { sessions } = yield* stateWith("a new session", (state) =>
        state.sessions.some(({ id }) => !known.has(id))
      )
      return sessions.find(({ id }) => !known.has(id)) as Session
    })

  return { ...sandbox, url, tab, act, refused, stateWith, recordWith, login }
})
