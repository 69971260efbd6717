/**
 * An example request and response of every call. Tokens, keys and ids are placeholders of the right form. A test sends
 * each request to the running service and compares the responses.
 */
import { requestedScopes } from "../../schema/Identity.ts"
import { version } from "../../schema/Release.ts"

/** Placeholders for the caller's own values. A sandbox puts live ones in their places. */
export const placeholders = {
  slt: "oac_EXAMPLEexampleEXAMPLEexampleEXAMPLEexample1",
  accessToken: "oat_EXAMPLEexampleEXAMPLEexampleEXAMPLEexample1",
  refreshToken: "ort_EXAMPLEexampleEXAMPLEexampleEXAMPLEexample1",
  /** Of a session that ends. */
  endedToken: "ort_EXAMPLEexampleEXAMPLEexampleEXAMPLEexample2",
  idempotencyKey: "b7f1c2d49a5e4c0f8e21d3a4",
  tingKey: "si:deejay/trigger/7/fired",
  telemetryId: "01990c6e-5f0a-7c1e-8d3b-2a4f6b8c0d1e",
  /** Of a webhook's event, with the time and the signature of its delivery. */
  eventId: "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a",
  timestamp: "1790331330",
  signature: "v1=47b0505acc2ff786333017811e22d22abb00a482aa7485539f52b59720f860d9"
} as const

/** A successful call: the JSON body of its request, if any, and that of its response; none for 204. */
export interface Example {
  readonly request?: unknown
  readonly response?: unknown
}

const actor = { type: "silicon", public_id: "si:deejay" } as const

const session = {
  access_token: placeholders.accessToken,
  refresh_token: placeholders.refreshToken,
  token_type: "Bearer",
  expires_in: 1800,
  scope: requestedScopes.join(" "),
  actor,
  org_id: "acme",
  org_ids: ["acme"],
  testing_environment_id: null
}

const subscriptionId = "sub_5b0c6b1f5d4f4c3a9d8e7f6a5b4c3d2e"

/** By operation id. */
export const examples = {
  "system.healthz": { response: { status: "ok", service: "music-backend", version } },
  "system.readyz": {
    response: {
      status: "ready",
      checks: { database: "ok", serving: "ok", tracker: "ok", tables: "ok" }
    }
  },
  "descriptors.iam": {
    response: {
      app_id: "music",
      org_id: "music",
      api_version: "v1",
      iam_url: "https://iam.example",
      ting_url: "https://ting.example",
      testing_environment_id: null,
      ting_types: ["music.trigger.fired", "music.trigger.expired"],
      scopes: [...requestedScopes],
      version
    }
  },
  "descriptors.version": { response: { version, api_versions: ["v1"], min_cli: "0.1.0" } },
  "auth.login": {
    request: { slt: placeholders.slt },
    response: {
      ...session,
      ting: { subscribed: true, subscription_id: subscriptionId }
    }
  },
  "auth.refresh": {
    request: { refresh_token: placeholders.refreshToken },
    response: session
  },
  "auth.logout": { request: { token: placeholders.endedToken } },
  "auth.me": {
    response: {
      authenticated: true,
      actor,
      org_id: "acme",
      membership_id: "si:deejay[acme]",
      session_id: "0199a0d0-0000-7000-8000-000000000001",
      scopes: [...requestedScopes],
      ting_ready: true,
      testing_environment_id: null
    }
  },
  "tings.subscribe": {
    request: {},
    response: {
      id: subscriptionId,
      app_id: "music",
      for: actor.public_id,
      active: true
    }
  },
  "tings.send": {
    request: {
      type: "music.trigger.fired",
      key: placeholders.tingKey,
      data: { trigger: 7, title: "Low Tide" },
      metadata: { room: "kitchen" }
    },
    response: {
      id: "msg_0d9a4c7be21f4f53b6a8c1d2e3f40516",
      created_at: "2026-09-24T08:15:30.412907Z",
      key: placeholders.tingKey,
      silent: false,
      replayed: false
    }
  },
  "reports.submit": {
    request: {
      message: "Playback stops after a seek near the end of a track.",
      pr: "https://github.com/harbor/music/pull/12",
      attachments: [{ name: "player.log", content: "08:15:30 seek 3:41\n08:15:31 stalled" }],
      context: { client: "0.1.0", platform: "linux" }
    },
    response: {
      id: "rep_8c1d2e3f405160d9a4c7be21f4f53b6a",
      status: "stored",
      issue_url: null,
      reporter: "si:deejay",
      created_at: "2026-09-24T08:15:30.412Z",
      replayed: false
    }
  },
  "telemetry.accept": {
    request: {
      table: "musicclidaemon",
      events: [
        {
          id: placeholders.telemetryId,
          type: "playback.track.started",
          data: { track: 1 },
          metadata: { occurred_at: "2026-09-24T08:15:30.412Z" }
        }
      ]
    }
  },
  "webhooks.receive": {
    request: {
      spec_version: "1.0",
      event_id: placeholders.eventId,
      event_type: "carbon.updated.v1",
      occurred_at: "2026-09-25T10:15:30.123456Z",
      organization_id: null,
      aggregate: { type: "carbon", id: "c:ana", version: 4 },
      data: { changed_fields: ["display_name"] }
    },
    response: { received: true }
  }
} as const satisfies Record<string, Example>

const byOperation = new Map<string, Example>(Object.entries(examples))

/** The example of an operation, by its id. */
export const exampleOf = (operationId: string): Example | undefined => byOperation.get(operationId)
