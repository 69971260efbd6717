/** The requests of the simulated clients. */
import { randomUUID } from "node:crypto"
import type { InMemoryRequest } from "../../support/InMemoryServer.ts"

const json = { "content-type": "application/json" }

const authorized = (token: string) => ({ authorization: `Bearer ${token}`, "x-org-id": "acme" })

const selecting = (secret: string | undefined): Readonly<Record<string, string>> =>
  secret === undefined ? {} : { "x-testing-environment-key": secret }

const posted = (
  path: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {}
): InMemoryRequest => ({
  method: "POST",
  path: `/api/v1${path}`,
  headers: { ...json, ...headers },
  body: JSON.stringify(body)
})

/** A key that no other caller has. */
export const newKey = (): string => randomUUID()

export const requests = {
  login: (slt: string, key: string, secret?: string) =>
    posted("/auth/login", { slt }, { "idempotency-key": key, ...selecting(secret) }),
  refresh: (token: string, key: string, secret?: string) =>
    posted("/auth/refresh", { refresh_token: token }, { "idempotency-key": key, ...selecting(secret) }),
  logout: (token: string, key: string) => posted("/auth/logout", { token }, { "idempotency-key": key }),
  me: (token: string, secret?: string): InMemoryRequest => ({
    path: "/api/v1/auth/me",
    headers: { ...authorized(token), ...selecting(secret) }
  }),
  ting: (token: string, key: string) =>
    posted("/tings", { type: "music.trigger.fired", key, data: {} }, authorized(token)),
  report: (message: string, key: string, token?: string) =>
    posted(
      "/reports",
      { message },
      { "idempotency-key": key, ...(token === undefined ? {} : authorized(token)) }
    ),
  telemetry: (events: number, bytes = 0) =>
    posted("/telemetry", {
      table: "musicclidaemon",
      events: Array.from({ length: events }, () => ({
        id: randomUUID(),
        type: "playback",
        ...(bytes === 0 ? {} : { text: "x".repeat(bytes) })
      }))
    }),
  plane: (secret: string): InMemoryRequest => ({ path: "/api/v1/iam", headers: selecting(secret) })
} as const
