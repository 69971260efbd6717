/** The world's switches over HTTP, below `/_sandbox/`, for a person with curl. */
import { controlBody, controlRefusal } from "../Controls.ts"
import type { Reply, Seen } from "../Simulator.ts"
import { production } from "./Model.ts"
import { isTingCode } from "./Refusal.ts"
import type { FailNext, MuteScope, RecipientOf, World } from "./World.ts"

type Body = Readonly<Record<string, unknown>>

const done: Reply = { status: 204 }

const optional = (body: Body, name: string): string | undefined => {
  const value = body[name]
  if (value !== undefined && typeof value !== "string") throw new Error(`${name} must be a string`)
  return value
}

const required = (body: Body, name: string): string => {
  const value = optional(body, name)
  if (value === undefined || value === "") throw new Error(`${name} is required`)
  return value
}

const list = (body: Body, name: string): ReadonlyArray<string> | undefined => {
  const value = body[name]
  if (value === undefined) return undefined
  const texts = Array.isArray(value) ? value.filter((item) => typeof item === "string") : []
  if (!Array.isArray(value) || texts.length !== value.length)
    throw new Error(`${name} must be an array of strings`)
  return texts
}

const count = (body: Body, name: string): number | undefined => {
  const value = body[name]
  if (value !== undefined && (typeof value !== "number" || !(value >= 0)))
    throw new Error(`${name} must be a number`)
  return value
}

const planeIn = (body: Body): string => optional(body, "plane") || production

const recipient = (body: Body): RecipientOf => ({
  plane: planeIn(body),
  org: required(body, "org"),
  app_id: required(body, "app_id"),
  for: required(body, "for")
})

const scope = (body: Body): MuteScope => {
  const service = optional(body, "service")
  const type = optional(body, "type")
  return { ...(service === undefined ? {} : { service }), ...(type === undefined ? {} : { type }) }
}

const lifecycles = ["ready", "pending", "disabled", "stale"] as const

type Act = (world: World, body: Body, failNext: FailNext) => Reply

const acts: ReadonlyMap<string, Act> = new Map<string, Act>([
  [
    "POST sessions",
    (world, body) => {
      const orgs = list(body, "orgs")
      const administers = list(body, "administers")
      const token = world.mintSession({
        plane: planeIn(body),
        for: required(body, "for"),
        ...(orgs === undefined ? {} : { orgs }),
        ...(administers === undefined ? {} : { administers })
      })
      return { status: 200, headers: { "cache-control": "no-store" }, body: { token } }
    }
  ],
  [
    "POST types",
    (world, body) => {
      const description = optional(body, "description")
      world.registerType(planeIn(body), required(body, "app_id"), required(body, "type"), description)
      return done
    }
  ],
  [
    "POST mute",
    (world, body) => {
      world.mute(recipient(body), scope(body))
      return done
    }
  ],
  [
    "POST unmute",
    (world, body) => {
      world.unmute(recipient(body), scope(body))
      return done
    }
  ],
  [
    "POST revoke",
    (world, body) => {
      world.revokeGrant(recipient(body))
      return done
    }
  ],
  [
    "POST required-delivery",
    (world, body) => {
      world.requireDeliveryOptIn(recipient(body), body.enabled !== false)
      return done
    }
  ],
  [
    "POST lifecycle",
    (world, body) => {
      const lifecycle = lifecycles.find((known) => known === body.lifecycle)
      if (lifecycle === undefined) throw new Error(`lifecycle is one of ${lifecycles.join(", ")}`)
      world.setLifecycle(required(body, "plane"), lifecycle)
      return done
    }
  ],
  [
    "POST fail",
    (_, body, failNext) => {
      const code = required(body, "code")
      if (!isTingCode(code)) throw new Error("code is not one of Ting's")
      const status = count(body, "status")
      const retryAfter = count(body, "retry_after")
      const times = count(body, "times")
      failNext(code, {
        ...(status === undefined ? {} : { status }),
        ...(retryAfter === undefined ? {} : { retryAfter }),
        ...(times === undefined ? {} : { times }),
        committed: body.committed === true
      })
      return done
    }
  ],
  ["GET grants", (world, body) => ({ status: 200, body: { items: world.grants(planeIn(body)) } })],
  [
    "GET inbox",
    (world, body) => ({
      status: 200,
      body: { items: world.inbox(planeIn(body), required(body, "org"), required(body, "for")) }
    })
  ]
])

/** Answers a request below `/_sandbox/`; parameters are the JSON body, or the query of a GET. */
export const answerControl = (world: World, failNext: FailNext, request: Seen): Reply => {
  const act = acts.get(`${request.method} ${request.path.slice("/_sandbox/".length)}`)
  if (act === undefined) return controlRefusal("no such control")
  const body = request.method === "GET" ? Object.fromEntries(request.query) : controlBody(request)
  if (body === undefined) return controlRefusal("the body must be a JSON object")
  try {
    return act(world, body, failNext)
  } catch (problem) {
    if (problem instanceof Error) return controlRefusal(problem.message)
    throw problem
  }
}
