// A daemon on the Effect client: at each due time it records an event and, with a session, sends a trigger as a ting.
// It shares its session with the command line and never refreshes at the same time.
//
//   npm ci && npm run build:client      # in a clone of the repository
//   MUSIC_URL=http://127.0.0.1:8787 node --import tsx examples/effect-daemon.ts
//
// Elsewhere: npm install <clone>/dist/music-client-*.tgz effect@3 @effect/platform@0.97 @effect/platform-node@0.108 tsx
// MUSIC_DAEMON_PAUSE is the time between two ticks (`10 seconds`); MUSIC_DAEMON_TICKS ends it after so many ticks. A signal ends it
// at any time, and the last telemetry is sent.
import { homedir } from "node:os"
import { join } from "node:path"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import { MusicClient } from "music-client/effect"
import { fileSessionStore } from "music-client/node"

/** An empty variable counts as unset, so that no credential is stored in `./music`. */
const setting = (name: string, otherwise: string) =>
  Config.map(Config.withDefault(Config.string(name), ""), (value) => value || otherwise)

const settings = Config.all({
  baseUrl: setting("MUSIC_URL", "http://127.0.0.1:8787"),
  home: setting("SILICON_HOME", join(homedir(), ".silicon")),
  ticks: Config.withDefault(Config.integer("MUSIC_DAEMON_TICKS"), Number.MAX_SAFE_INTEGER).pipe(
    Config.validate({ message: "MUSIC_DAEMON_TICKS must be at least 1", validation: (ticks) => ticks >= 1 })
  ),
  pause: Config.withDefault(Config.duration("MUSIC_DAEMON_PAUSE"), Duration.seconds(10)).pipe(
    Config.validate({
      message: "MUSIC_DAEMON_PAUSE must be from 10 milliseconds to 1 day",
      validation: Duration.between({ minimum: Duration.millis(10), maximum: Duration.days(1) })
    })
  )
})

/** A trigger is repeated while a repetition can help, with growing pauses of at most a minute. */
const patience = Schedule.exponential("1 second").pipe(Schedule.union(Schedule.spaced("1 minute")))

/** `due`: the due time of the trigger, as a text. */
const fireTrigger = (due: string) =>
  Effect.gen(function* () {
    const client = yield* MusicClient
    // The key names the event, not the attempt, and needs no counter of this process. So a trigger that may have been sent,
    // before an outage or a crash, is not sent twice.
    const send = client.ting({ type: "music.trigger.fired", key: `daemon/${due}`, data: { due } })
    const ting = yield* send.pipe(
      Effect.catchTag("RecipientNotRegistered", () => Effect.zipRight(client.subscribe(), send)),
      Effect.tapError(({ code, requestId }) => Effect.logWarning(`${code} (${requestId ?? "not sent"})`)),
      Effect.retry({ while: ({ retryable }) => retryable, schedule: patience })
    )
    yield* Effect.log(`trigger ${due}: ${ting.id}${ting.replayed ? " (had been sent)" : ""}`)
  }).pipe(
    Effect.catchTags({
      NotLoggedIn: () => Effect.log("there is no session: waiting for a login"),
      LoggedOut: ({ details }) => Effect.log(`the session has ended (${details.reason}): waiting for a login`)
    }),
    // Any other failure is final for this trigger; the session is kept for the next one.
    Effect.catchAll(({ hint, message }) => Effect.logError(`${message} ${hint}`)),
    Effect.withSpan("Daemon.tick")
  )

const daemon = ({ pause, ticks }: Config.Config.Success<typeof settings>) =>
  Effect.gen(function* () {
    const { telemetry } = yield* MusicClient
    const period = Duration.toMillis(pause)
    let last = 0
    const tick = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      // Due times are multiples of the pause, equal in every process: the current one, or the one after the last. Those that were
      // missed in an outage, or while no daemon ran, are left out.
      const at = Math.max(Math.floor(now / period) * period, last + period)
      yield* Effect.sleep(Math.max(0, at - now))
      last = at
      const due = new Date(at).toISOString()
      yield* Effect.ignore(telemetry.record("musicclidaemon", { type: "daemon.tick", data: { due } }))
      yield* fireTrigger(due)
    })
    yield* Effect.repeat(tick, Schedule.recurs(ticks - 1))
  })

const program = Effect.flatMap(settings, (values) =>
  daemon(values).pipe(
    Effect.provide(
      MusicClient.layer({
        baseUrl: values.baseUrl,
        source: "daemon",
        telemetry: true,
        sessionStore: fileSessionStore({ directory: join(values.home, "music") })
      }).pipe(Layer.provide(FetchHttpClient.layer))
    )
  )
)

NodeRuntime.runMain(program)
