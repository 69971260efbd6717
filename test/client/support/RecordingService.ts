/** The stub service with a record of its requests, and a client that tells its events. */
import {
  type ClientEvent,
  createMusicClient,
  type MusicClient,
  type PromiseClientOptions
} from "../../../client/index.ts"
import { type Answers, stubService } from "./StubService.ts"

export interface RecordedRequest {
  readonly url: string
  readonly method: string
  readonly headers: Headers
  readonly body: string
}

export const json = (value: unknown, headers: Readonly<Record<string, string>> = {}, status = 200) =>
  new Response(JSON.stringify(value), { status, headers: { "content-type": "application/json", ...headers } })

export const recordingService = (first = 1) => {
  const answers: Record<string, Answers[string]> = {}
  const stub = stubService(answers, first)
  const requests: Array<RecordedRequest> = []
  const fetch: typeof globalThis.fetch = (input, init) => {
    requests.push({
      url: String(input),
      method: init?.method ?? "GET",
      headers: new Headers(init?.headers),
      body: String(init?.body ?? "")
    })
    return stub.fetch(input, init)
  }
  return { answers, calls: stub.calls, fetch, requests }
}

export const defaults = {
  baseUrl: "https://music.example",
  source: "daemon",
  telemetry: false,
  random: () => 0
} as const

/** A client of a recording service, its events, and a clock that tests move. */
export const startClient = (given: Partial<PromiseClientOptions> = {}, service = recordingService()) => {
  const events: Array<ClientEvent> = []
  let offset = 0
  const client: MusicClient = createMusicClient({
    ...defaults,
    fetch: service.fetch,
    clock: { now: () => Date.now() + offset, monotonic: () => performance.now() + offset },
    onEvent: (event) => {
      events.push(event)
    },
    ...given,
    throwOnError: false
  })
  return {
    ...service,
    client,
    events,
    types: () => events.map(({ type }) => type),
    pass: (milliseconds: number) => {
      offset += milliseconds
    }
  }
}

/** Milliseconds after which the access tokens of the stub have expired. */
export const life = 1_800_000
