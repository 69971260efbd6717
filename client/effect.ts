/** The client as an Effect service, with the program's own `effect` and HTTP client. */
import * as HttpClient from "@effect/platform/HttpClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { httpClientTransport } from "./transport/HttpClientTransport.ts"
import { type MusicClientService, makeMusicClient } from "./MusicClient.ts"
import type { MusicClientOptions } from "./Options.ts"

/** The service of a music backend: sessions, tings, reports and telemetry, with retries and typed failures. */
export class MusicClient extends Context.Tag("music/MusicClient")<MusicClient, MusicClientService>() {
  /**
   * A client until the scope closes; then the last telemetry is sent, for at most 5 s. Needs an `HttpClient` that does not
   * follow redirects, such as `FetchHttpClient.layer`: a session must not be sent to another address.
   */
  static layer(options: MusicClientOptions): Layer.Layer<MusicClient, never, HttpClient.HttpClient> {
    return Layer.scoped(
      MusicClient,
      Effect.flatMap(HttpClient.HttpClient, (client) =>
        Effect.acquireRelease(
          makeMusicClient(options, httpClientTransport(client)),
          ({ telemetry }) => telemetry.close
        )
      )
    )
  }
}

export type { AnyCallFailure, CallFailure } from "./calls/Calls.ts"
export type { EndpointName } from "./calls/Endpoints.ts"
export type { ClientEvent, EventListener } from "./Events.ts"
export {
  type MusicFailure,
  type OptionsProblem,
  type SessionFailure,
  toError,
  type UnknownFailure,
  type WireFailure
} from "./failures/Failures.ts"
export {
  type MusicClientService,
  newIdempotencyKey,
  type SignedCallFailure,
  withMetadata
} from "./MusicClient.ts"
export type {
  CallOptions,
  LoginOptions,
  LogoutOptions,
  MusicClientOptions,
  ReportOptions
} from "./Options.ts"
export { Jitter } from "./calls/Retry.ts"
export type { Login, LoginFailure } from "./sessions/Login.ts"
export type { Logout, LogoutFailure } from "./sessions/Logout.ts"
export {
  memorySessionStore,
  processLock,
  type SessionLock,
  type SessionStore,
  type StoredSession
} from "./stores/SessionStore.ts"
export {
  SessionStoreError,
  type StoreFailureReason,
  type StoreProblemInput
} from "./failures/StoreFailures.ts"
export type * from "./Types.ts"
export type { Recorded, Telemetry, TelemetryFailure } from "./telemetry/Telemetry.ts"
export type { RefreshFailure } from "./sessions/Refresh.ts"
