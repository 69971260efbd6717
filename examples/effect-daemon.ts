// A daemon on the Effect client: every tick it looks whether somebody is signed in, fires a trigger in their name and
// measures. It shares its session with the command line beside it and never refreshes at the same time.
//
//   MUSIC_URL=http://127.0.0.1:8787 node --import tsx examples/effect-daemon.ts
//
// MUSIC_DAEMON_TICKS ends it after so many ticks; a signal ends it at any time, and the last telemetry is sent.
import { homedir } from "node:os"
import { join } from "node:path"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import { exchangeOf, MusicClient } from "music-backend/client/effect"
import { fileSessionStore } from "music-backend/client/node"

const settings = Config.all({
  baseUrl: Config.withDefault(Config.string("MUSIC_URL"), "http://127.0.0.1:8787"),
  home: Config.withDefault(Config.string("SILICON_HOME"), join(homedir(), ".silicon")),
  ticks: Config.withDefault(Config.integer("MUSIC_DAEMON_TICKS"), Number.MAX_SAFE_INTEGER),
  pause: Config.withDefault(Config.duration("MUSIC_DAEMON_PAUSE"), "10 seconds")
})

const fireTrigger = (tick: number) =>
  Effect.gen(function* () {
    const client = yield* MusicClient
    const { actor } = yield* client.me()
    // The key names the event, not the attempt: after a crash the same trigger is still sent once.
    const ting = yield* client.ting({
      type: "music.trigger.fired",
      key: `${actor.public_id}/daemon/${tick}`,
      data: { tick }
    })
    yield* Effect.log(`trigger ${tick}: ${ting.id}`)
  }).pipe(
    Effect.catchTags({
      NotLoggedIn: () => Effect.log("nobody is signed in: waiting"),
      LoggedOut: ({ reason }) => Effect.log(`the session has ended (${reason}): waiting for a login`),
      RecipientNotRegistered: () => Effect.flatMap(MusicClient, (client) => client.subscribe())
    }),
    // Whatever else it is, the session is kept; the next tick tries again.
    Effect.catchAll((failure) =>
      Effect.logWarning(`${failure.code} (${exchangeOf(failure).requestId ?? "not sent"})`)
    ),
    Effect.withSpan("Daemon.tick")
  )

const daemon = ({ pause, ticks }: Config.Config.Success<typeof settings>) =>
  Effect.gen(function* () {
    const { telemetry } = yield* MusicClient
    let tick = 0
    yield* Effect.suspend(() => {
      tick += 1
      return Effect.zipRight(
        Effect.ignore(telemetry.record("musicclidaemon", { type: "daemon.tick", data: { tick } })),
        fireTrigger(tick)
      )
    }).pipe(Effect.repeat(Schedule.spaced(pause).pipe(Schedule.intersect(Schedule.recurs(ticks - 1)))))
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
