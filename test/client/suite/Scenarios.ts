/** Scenarios of a client against the real server: in Node, in a page, or wherever a bundle runs. */
import type { ClientEvent, Ting } from "../../../client/index.ts"
import type { FaultKind, Scenario } from "./Bench.ts"
import { check, each, eventually, failed, makeLane, patient, same, succeeded } from "./Lane.ts"

const api = "/api/v1"
const paths = {
  login: `${api}/auth/login`,
  refresh: `${api}/auth/refresh`,
  logout: `${api}/auth/logout`,
  me: `${api}/auth/me`,
  subscribe: `${api}/ting/subscription`,
  ting: `${api}/tings`,
  report: `${api}/reports`
}
const telemetry = `${api}/telemetry`

const faults: ReadonlyArray<FaultKind> = [
  ...(["cut-before", "cut-after", "cut-within", "hang-after", "delay"] as const),
  ...(["html-502", "html-502-after", "html-200-after", "empty-200-after"] as const)
]

const life = 1_800_000
const message = "Playback stops after a seek near the end of a track."
const tingOf = (key: string) => ({ type: "music.trigger.fired", key: `si:deejay/${key}`, data: { key } })

/** Milliseconds, long enough for a slow machine; scenarios with hanging calls use shorter timeouts, below the time of a delay. */
const timeoutsFor = (kind: FaultKind) => ({
  attemptMilliseconds: kind === "hang-after" || kind === "delay" ? 2_000 : 20_000
})

/** Every fault with every call. */
const pairs = (kinds: ReadonlyArray<FaultKind>, calls: ReadonlyArray<keyof typeof paths>) =>
  kinds.flatMap((kind) => calls.map((call) => ({ kind, call })))

const transient = ["transport_failed", "timed_out", "unexpected_answer", "dependency_unavailable"]

export const scenarios: ReadonlyArray<Scenario> = [
  {
    name: "every call of a session succeeds, from login to logout",
    run: async (bench, kit) => {
      const events: Array<ClientEvent> = []
      const onEvent = (event: ClientEvent) => events.push(event)
      const options = { telemetry: true, version: "0.0.0", onEvent }
      const { client, family, headers, telemetry: queue } = makeLane(bench, kit, options)
      same(await client.status(), { state: "logged_out", reason: "not_logged_in" }, "before")
      const session = succeeded(await client.login(await bench.command("slt")), "login")
      same(session.ting.subscribed, true, "registered")
      same(Object.keys(session).includes("access_token"), false, "tokens stay inside")
      const me = succeeded(await client.me(), "me")
      same([me.actor.public_id, me.org_id], ["si:deejay", "acme"], "me")
      succeeded(await client.subscribe(), "subscribe")
      const key = kit.newIdempotencyKey()
      const first = await client.ting({ ...tingOf(key), key })
      same(succeeded(first, "ting").replayed, false, "first")
      const { rateLimits, requestId } = first.metadata ?? { rateLimits: [], requestId: null }
      check(rateLimits.length > 0 && /^web-[0-9a-f-]{36}$/.test(`${requestId}`), "metadata")
      const again = succeeded(await client.request("POST", paths.ting, { body: tingOf(key) }), "raw ting")
      same((again.body as Ting).replayed, true, "again, under the whole key")
      same(succeeded(await client.report({ message }), "report").reporter, "si:deejay", "signed")
      const unsigned = await client.report({ message }, { anonymous: true })
      same(succeeded(unsigned, "report").reporter, null, "anonymous")
      same(succeeded(await client.iam(), "iam").app_id, "music", "descriptor")
      const { api_versions, min_cli } = succeeded(await client.version(), "version")
      same(api_versions, ["v1"], "version")
      const outdated = events.filter((event) => event.type === "outdated")
      same(outdated, [{ type: "outdated", version: "0.0.0", minVersion: min_cli }], "outdated")
      const event = { type: "page.opened", data: {} }
      const { id } = succeeded(queue.record("musicfrontendevents", event), "record")
      await client.close()
      same(queue.stats().delivered, 1, "the last flush")
      const arrived = async () => (await bench.command("rows", "musicfrontendevents", id)) === 1
      await eventually(arrived, "the event arrives in its table")
      succeeded(await client.logout(), "logout")
      same((await family()).status, "revoked", "the family")
      same(succeeded(await client.session(), "session"), null, "forgotten")
      same(await headers(paths.me, "x-music-source"), ["web"], "source")
      same(await headers(paths.me, "x-music-telemetry"), ["on"], "preference")
      const changes = events.flatMap((event) => (event.type.startsWith("logged") ? [event.type] : []))
      same(changes, ["logged_in", "logged_out"], "events of the session")
      check(!/oat_|ort_/.test(JSON.stringify(events)), "no token")
    }
  },
  {
    name: "every call takes effect once under every connection fault",
    run: (bench, kit) =>
      each(
        [
          ...pairs(bench.thorough ? faults : ["cut-after"], ["refresh", "ting"]),
          ...pairs(["cut-after", "html-502-after"], ["login", "report"]),
          ...pairs(["cut-within"], ["me", "subscribe", "logout"])
        ],
        async ({ call, kind }) => {
          const title = `${call} under ${kind}`
          const lane = makeLane(bench, kit, timeoutsFor(kind))
          const { client, login } = lane
          if (call !== "login") await login()
          await lane.fault(kind, paths[call])
          if (call === "refresh") lane.pass(life)
          const key = kit.newIdempotencyKey()
          if (call === "login") await login()
          else if (call === "ting") succeeded(await client.ting(tingOf(key)), title)
          else if (call === "report") succeeded(await client.report({ message }), title)
          else succeeded<unknown>(await client[call === "refresh" ? "me" : call](), title)
          const rotations = call === "refresh" ? 1 : 0
          const status = call === "logout" ? "revoked" : "active"
          same(await lane.family(), { status, rotations }, title)
          if (call === "ting") same(await bench.command("tings", `si:deejay/${key}`), 1, title)
          check((await lane.attempts(paths[call])) >= 2, `${title}: tried again`)
          const keys = await lane.headers(paths[call], "idempotency-key")
          same(new Set(keys).size, 1, `${title}: under one key`)
          const state = call === "logout" ? "logged_out" : "authenticated"
          same((await client.status()).state, state, `${title}: the session`)
        }
      )
  },
  {
    name: "an outage is never a logout: the call fails with its code, and the session is kept and works again",
    run: (bench, kit) =>
      each(
        [
          ...pairs(bench.thorough ? faults : ["cut-after"], ["refresh"]),
          ...pairs(["cut-after", "html-200-after"], ["me", "logout"]),
          ...pairs(["html-401"], ["refresh", "me"])
        ],
        async ({ call, kind }) => {
          const title = `${call} under lasting ${kind}`
          const options = { ...timeoutsFor(kind), deadlineMilliseconds: 700 }
          const { clear, client, family, fault, pass, stored } = makeLane(bench, kit, options)
          succeeded(await client.login(await bench.command("slt"), patient), "login")
          const before = await stored()
          await fault(kind, paths[call], 1_000)
          if (call === "refresh") pass(life)
          const status = call === "logout" ? undefined : await client.status()
          if (status !== undefined) same(status.state, "unknown", title)
          const error =
            status === undefined
              ? failed(await client.logout(), title)
              : status.state === "unknown" && status.error
          check(error !== false && transient.includes(error.code), `${title}: ${JSON.stringify(error)}`)
          same((await stored())?.refresh_token, before?.refresh_token, `${title}: kept`)
          await clear()
          if (call === "logout") {
            succeeded(await client.logout(patient), title)
            return
          }
          same((await client.status(patient)).state, "authenticated", title)
          same(await family(), { status: "active", rotations: call === "refresh" ? 1 : 0 }, title)
        }
      )
  },
  {
    name: "an answer that was lost in a crash is replayed after the restart",
    run: async (bench, kit) => {
      const { clear, family, fault, login, pass, restarted } = makeLane(bench, kit)
      await login()
      await fault("cut-after", paths.refresh, 1_000_000)
      pass(life)
      // Until the service has acted: a slow machine may need more than one call for that.
      do failed(await restarted({ deadlineMilliseconds: 400 }).me(), "no answer")
      while ((await family()).rotations === 0)
      // No request of the first program is in flight any more.
      await new Promise((resolve) => setTimeout(resolve, 100))
      await clear()
      await bench.command("advance", 300_000)
      succeeded(await restarted().me(), "after the restart")
      same(await family(), { status: "active", rotations: 1 }, "replayed, not spent again")
    }
  },
  {
    name: "a redirect is not followed",
    run: async (bench, kit) => {
      const { client, fault, login } = makeLane(bench, kit)
      await login()
      await fault("redirect", paths.me)
      same(failed(await client.me(), "redirected").code, "unexpected_answer", "not repeated")
      same(await bench.command("attempts", "redirected", paths.me), 0, "the other address")
    }
  },
  {
    name: "an aborted call ends at once, and its refresh is saved",
    run: async (bench, kit) => {
      const { attempts, client, fault, login, pass, stored } = makeLane(bench, kit)
      await login()
      const before = await stored()
      await fault("delay", paths.refresh)
      pass(life)
      const controller = new AbortController()
      const taken = client.me({ signal: controller.signal })
      // The refresh must be in flight before the abort.
      await eventually(async () => (await attempts(paths.refresh)) === 1, "the refresh is in flight")
      controller.abort()
      same(failed(await taken, "taken back").code, "aborted", "code")
      const isSaved = async () => (await stored())?.refresh_token !== before?.refresh_token
      await eventually(isSaved, "the refresh completes and is saved")
      succeeded(await client.me(), "with the new pair")
    }
  },
  {
    name: "a testing session is separate from production's",
    run: async (bench, kit) => {
      const sessionStore = kit.memorySessionStore()
      const testingKey = await bench.command("testingKey")
      const testing = makeLane(bench, kit, { sessionStore, testingKey })
      const session = succeeded(await testing.client.login("si:deejay"), "a public id replaces the token")
      check(session.testing_environment_id !== null, "of the environment")
      succeeded(await testing.client.me(), "me")
      same(
        (await testing.restarted({ testingKey: null }).status()).state,
        "logged_out",
        "production has none"
      )
    }
  },
  {
    name: "telemetry that may have arrived is sent again and stored once",
    run: async (bench, kit) => {
      const { attempts, fault, telemetry: queue } = makeLane(bench, kit, { telemetry: true })
      const event = { type: "seen", data: {} }
      const { id } = succeeded(queue.record("musicfrontendanalytics", event), "record")
      // Not a cut connection: some browsers repeat a request by themselves after one.
      await fault("html-502-after", telemetry)
      check(failed(await queue.flush(), "lost").retryable, "kept")
      same(queue.stats().queued, 1, "queued")
      same(succeeded(await queue.flush(), "again").delivered, 1, "delivered")
      same(await attempts(telemetry), 2, "twice sent")
      const arrived = async () => (await bench.command("rows", "musicfrontendanalytics", id)) === 1
      await eventually(arrived, "stored once")
    }
  }
]
