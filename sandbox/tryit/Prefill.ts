/** Values with which a call succeeds: the examples of the contract, with what must be new or real put in. */
import { type Call, exampleBody, isSigned } from "../../src/http/docs/Spec.ts"
import { isObject, type Outcome, success } from "./Outcome.ts"
import { mintSlt, signWebhook } from "./SandboxConsole.ts"
import type { Sessions } from "./Session.ts"

export interface Values {
  readonly headers: Readonly<Record<string, string>>
  /** Undefined for a call without a body. */
  readonly body: string | undefined
}

export const keyHeader = "Idempotency-Key"
export const bearerHeader = "Authorization"
const planeHeader = "X-Testing-Environment-Key"

export const newKey = (): string => `try-it-${crypto.randomUUID()}`

const usesToken = ["auth.refresh", "auth.logout"]

/** Whether the call is made with the session of the page. */
export const usesSession = (call: Call): boolean => isSigned(call) || usesToken.includes(call.operationId)

/** Headers of the session and the plane. They follow both at once. */
export const sessionHeaders = (call: Call, sessions: Sessions): Readonly<Record<string, string>> => {
  const { session, who } = sessions
  const plane = usesSession(call) ? (session?.plane ?? who.plane) : who.plane
  return {
    [planeHeader]: plane.key ?? "",
    ...(isSigned(call)
      ? {
          [bearerHeader]: session === undefined ? "" : `Bearer ${session.accessToken}`,
          "X-Org-ID": session?.organization ?? ""
        }
      : {})
  }
}

/** What the body was made for. When it changes, the body is made again. */
export const basisOf = (call: Call, { session, who }: Sessions): string => {
  if (usesToken.includes(call.operationId)) return session?.refreshToken ?? ""
  if (call.operationId === "tings.send") return session?.actor ?? who.actor.publicId
  return ["auth.login", "webhooks.receive"].includes(call.operationId)
    ? `${who.plane.id} ${who.actor.publicId}`
    : ""
}

const pretty = (value: unknown): string => JSON.stringify(value, null, 2)

/** Values of a new request. */
export const prefill = async (call: Call, sessions: Sessions): Promise<Outcome<Values>> => {
  const { session, who } = sessions
  const example = exampleBody(call)
  const body = isObject(example) ? example : {}
  const headers = {
    ...sessionHeaders(call, sessions),
    [keyHeader]: newKey(),
    ...(example === undefined ? {} : { "Content-Type": "application/json" })
  }
  const filled = (value: unknown) => success({ headers, body: pretty(value) })
  switch (call.operationId) {
    case "auth.login": {
      const minted = await mintSlt(who)
      return minted.ok ? filled({ slt: minted.value.slt }) : minted
    }
    case "auth.refresh":
      return filled({ refresh_token: session?.refreshToken ?? "" })
    case "auth.logout":
      return filled({ token: session?.refreshToken ?? "" })
    case "tings.send":
      return filled({
        ...body,
        key: `${session?.actor ?? who.actor.publicId}/try-it/${crypto.randomUUID().slice(0, 8)}`
      })
    case "telemetry.accept": {
      const [event] = Array.isArray(body.events) ? body.events : []
      // The daemon's own table takes nothing from browsers.
      return filled({ table: "musicfrontendevents", events: [{ ...event, id: crypto.randomUUID() }] })
    }
    case "webhooks.receive": {
      const signed = await signWebhook(who)
      if (!signed.ok) return signed
      // Its bytes are signed, so they stay as they are.
      return success({ headers: { ...headers, ...signed.value.headers }, body: signed.value.body })
    }
    default:
      return example === undefined ? success({ headers, body: undefined }) : filled(example)
  }
}
