/** A service as a `fetch`, whose answers a test provokes. Its refresh tokens are spent once, as those of IAM: under another key a spent one ends all sessions. */
import type { SessionLock } from "../../../client/index.ts"
import { examples } from "../../../src/http/openapi/Examples.ts"

/** Milliseconds after which the access tokens of the service have expired. */
export const life = 1_800_000

export const never = () => new Promise<never>(() => undefined)

/** A lock that is granted at once, as after it was broken. */
export const openLock: SessionLock = { acquire: async () => async () => undefined }

/** Gets what makes the right answer, and makes that which is sent. */
export type Answer = (right: () => Response) => Response | Promise<Response>
export type Headers = Readonly<Record<string, string>>

export const json = (value: unknown, headers: Headers = {}, status = 200) =>
  new Response(JSON.stringify(value), { status, headers: { "content-type": "application/json", ...headers } })

/** A failure of the service, as it is sent; `more` are further members. */
export const failure = (status: number, code: string, headers: Headers = {}, more: object = {}) =>
  json({ error: { code, message: "m", hint: "h", retryable: false, ...more } }, headers, status)

/** The right answer with other members. */
export const changed =
  (change: object): Answer =>
  async (right) =>
    json({ ...((await right().json()) as object), ...change })

/** The tokens and the actor of a session; numbered, so that a test sees which one is used. */
export const pairOf = (generation: number, change: object = {}) => ({
  ...examples["auth.refresh"].response,
  access_token: `oat_${generation}`,
  refresh_token: `ort_${generation}`,
  expires_in: life / 1_000,
  actor: { type: "silicon", public_id: "si:deejay" },
  org_id: "acme",
  org_ids: ["acme"],
  testing_environment_id: null,
  ...change
})

/** The answer to a login. */
export const loginOf = (generation: number, change: object = {}) => ({
  ...pairOf(generation),
  ting: { subscribed: true },
  ...change
})

/** The answers to calls that change nothing, by the last part of their path. */
export const responses: Readonly<Record<string, unknown>> = {
  me: examples["auth.me"].response,
  subscription: examples["tings.subscribe"].response,
  tings: examples["tings.send"].response,
  reports: examples["reports.submit"].response,
  iam: examples["descriptors.iam"].response,
  version: examples["descriptors.version"].response,
  healthz: examples["system.healthz"].response,
  readyz: examples["system.readyz"].response
}

interface RecordedRequest {
  /** Last part of the path. */
  readonly call: string
  readonly url: string
  readonly method: string
  readonly headers: globalThis.Headers
  readonly body: string
  readonly init: RequestInit | undefined
}

/** A service that succeeds, except where `answers` holds another answer for a call. */
export const makeService = () => {
  const answers: Record<string, Answer> = {}
  const requests: Array<RecordedRequest> = []
  /** Live and spent refresh tokens, with the key and the answer of their rotation. */
  const rotations = new Map<string, { readonly key: string | null; readonly pair: object } | undefined>()
  const valid = new Set<string>()
  const state = { isOver: false, expires_in: life / 1_000 }
  let generation = 0

  const issue = () => {
    generation += 1
    rotations.set(`ort_${generation}`, undefined)
    valid.add(`Bearer oat_${generation}`)
    return loginOf(generation, { expires_in: state.expires_in })
  }
  const rotate = (token: string, key: string | null): object | undefined => {
    const known = rotations.get(token)
    if (known !== undefined && known.key !== key) state.isOver = true
    if (state.isOver || !rotations.has(token)) return undefined
    if (known !== undefined) return known.pair
    const { ting, ...pair } = issue()
    rotations.set(token, { key, pair })
    return pair
  }
  const rightOf = ({ body, call, headers }: RecordedRequest): Response => {
    const bearer = headers.get("authorization")
    if (call === "login") return json(issue())
    if (call === "logout" || call === "telemetry") return new Response(null, { status: 204 })
    const isAllowed = bearer === null ? call !== "me" : valid.has(bearer) && !state.isOver
    const answer =
      call === "refresh"
        ? rotate(JSON.parse(body).refresh_token, headers.get("idempotency-key"))
        : isAllowed && (responses[call] ?? {})
    return answer ? json(answer) : failure(401, "unauthenticated")
  }

  const fetch: typeof globalThis.fetch = async (input, init) => {
    const path = new URL(String(input)).pathname
    const call = path.slice(path.lastIndexOf("/") + 1)
    const [method, headers] = [init?.method ?? "GET", new Headers(init?.headers)]
    const request = { call, url: String(input), method, headers, body: String(init?.body ?? ""), init }
    requests.push(request)
    const right = () => rightOf(request)
    return answers[call]?.(right) ?? right()
  }
  return {
    answers,
    requests,
    fetch,
    calls: () => requests.map(({ call }) => call),
    keys: () => requests.map(({ headers }) => headers.get("idempotency-key")),
    /** Answers the next request of a call with this. */
    once: (call: string, answer: Answer) => {
      answers[call] = (right) => {
        delete answers[call]
        return answer(right)
      }
    },
    /** All access tokens have ended, and the next ones live so many seconds. */
    expire: (seconds: number) => {
      valid.clear()
      state.expires_in = seconds
    },
    isOver: () => state.isOver
  }
}
