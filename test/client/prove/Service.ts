/** A service of one session whose refresh tokens are spent once, as those of IAM: under another key a spent token ends the session. */
import type { IncomingMessage } from "node:http"
import { examples } from "../../../src/http/openapi/Examples.ts"
import { type Fault, startFaulty } from "../support/Faulty.ts"

export interface Planned extends Fault {
  /** Last part of the path. */
  readonly call: "refresh" | "me"
}

export const headersOf = (type: string) => ({ "content-type": type, "x-request-id": "prove-1" })

const session = {
  ...examples["auth.refresh"].response,
  actor: { type: "silicon", public_id: "si:deejay" },
  testing_environment_id: null
}

const refused = { error: { code: "unauthenticated", message: "m", hint: "h", retryable: false } }

export const startService = async (lane: string) => {
  /** Live and spent refresh tokens, with the key and the answer of their rotation. */
  const rotations = new Map<string, { readonly key: string; readonly pair: object } | undefined>()
  let generation = 0
  let access = ""
  let alive = true
  /** Seconds. */
  let life = 1_800
  let faults: ReadonlyArray<Planned> = []

  const tokens = () => {
    generation += 1
    access = `oat_${lane}_${generation}`
    rotations.set(`ort_${lane}_${generation}`, undefined)
    return { access_token: access, refresh_token: `ort_${lane}_${generation}`, expires_in: life }
  }

  const rotate = (token: string, key: string): object | undefined => {
    const known = rotations.get(token)
    if (!alive || !rotations.has(token)) return undefined
    if (known !== undefined && known.key !== key) alive = false
    if (known !== undefined) return known.key === key ? known.pair : undefined
    const pair = { ...session, ...tokens() }
    rotations.set(token, { key, pair })
    return pair
  }

  const callOf = ({ url }: IncomingMessage) => url?.split("/").at(-1) ?? ""
  const act = (request: IncomingMessage, body: string): object | undefined => {
    const { authorization, "idempotency-key": key } = request.headers
    const call = callOf(request)
    if (call === "login") return { ...session, ...tokens(), ting: { subscribed: true } }
    if (call === "refresh") return rotate(JSON.parse(body).refresh_token, String(key))
    return alive && authorization === `Bearer ${access}` ? examples["auth.me"].response : undefined
  }
  const { close, url } = await startFaulty(
    (request, body) => {
      const value = act(request, body)
      const headers = headersOf("application/json")
      return { status: value === undefined ? 401 : 200, headers, body: JSON.stringify(value ?? refused) }
    },
    (request) => {
      const fault = faults.find(({ call }) => call === callOf(request))
      faults = faults.filter((one) => one !== fault)
      return fault
    }
  )

  return {
    baseUrl: url,
    /** The next access tokens live so long, and the present one has ended. */
    expire: (seconds: number) => {
      life = seconds
      access = "none"
    },
    plan: (planned: ReadonlyArray<Planned>) => {
      faults = planned
    },
    alive: () => alive,
    close
  }
}
