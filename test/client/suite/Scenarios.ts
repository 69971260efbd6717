/** Scenarios of a client against the real server: in Node, in a page, or wherever a bundle runs. */
import type { ClientEvent, Me, Ting } from "../../../client/index.ts"
import type { Bench, FaultKind, Kit, Scenario } from "./Bench.ts"
import { check, each, eventually, failed, makeLane, same, succeeded } from "./Lane.ts"

const api = "/api/v1"
const paths = {
  login: `${api}/auth/login`,
  refresh: `${api}/auth/refresh`,
  logout: `${api}/auth/logout`,
  me: `${api}/auth/me`,
  subscribe: `${api}/ting/subscription`,
  ting: `${api}/tings`,
  report: `${api}/reports`,
  telemetry: `${api}/telemetry`,
  iam: `${api}/iam`
}

const faults: ReadonlyArray<FaultKind> = [
  "cut-before",
  "cut-after",
  "cut-within",
  "hang-after",
  "delay",
  "html-502",
  "html-502-after",
  "html-200-after",
  "empty-200-after"
]

const life = 1_800_000
const message = "Playback stops after a seek near the end of a track."
const tingOf = (key: string) => ({ type: "music.trigger.fired", key: `si:deejay/${key}`, data: { key } })

/** Milliseconds, long enough for a slow machine; scenarios with hanging calls use shorter timeouts, below the time of a delay. */
const timeoutsFor = (kind: FaultKind) =>
  kind === "hang-after" || kind === "delay" ? { attemptMilliseconds: 2_000 } : { attemptMilliseconds: 20_000 }

/** Every fault with every call. */
const pairs = <const Call extends keyof typeof paths>(
  kinds: ReadonlyArray<FaultKind>,
  calls: ReadonlyArray<Call>
) => kinds.flatMap((kind) => calls.map((call) => ({ kind, call })))

const transient = ["transport_failed", "timed_out", "unexpected_answer", "dependency_unavailable"]

/** A program that crashes while the answers to its refresh are lost. */
const lostRefresh = async (bench: Bench, kit: Kit) => {
  const lane = makeLane(bench, kit)
  await lane.login()
  const before = (await lane.stored())?.refresh_token ?? ""
  await lane.fault("cut-after", paths.refresh, 1_000_000)
  lane.pass(life)
  // Until the service has acted: a slow machine may need more than one call for that.
  do failed(await lane.restarted({ deadlineMilliseconds: 400 }).me(), "no answer")
  while ((await bench.command("family", before)).rotations === 0)
  // No request of the first program is in flight any more.
  await new Promise((resolve) => setTimeout(resolve, 100))
  await lane.clear()
  return { ...lane, before }
}

export const scenarios: ReadonlyArray<Scenario> = [
  {
    name: "every call of a session succeeds, from login to logout",
    run: async (bench, kit) => {
      const { client, name, stored } = makeLane(bench, kit, { telemetry: true })
      same(await client.status(), { state: "logged_out", reason: "not_logged_in" }, "before")
      const session = succeeded(await client.login(await bench.command("slt")), "login")
      same(session.ting.subscribed, true, "registered")
      same(Object.keys(session).includes("access_token"), false, "tokens stay inside")
      const me = succeeded(await client.me(), "me")
      same([me.actor.public_id, me.org_id], ["si:deejay", "acme"], "me")
      succeeded(await client.subscribe(), "subscribe")
      const key = kit.newIdempotencyKey()
      same(succeeded(await client.ting(tingOf(key)), "ting").replayed, false, "first")
      same(succeeded(await client.ting(tingOf(key)), "ting").replayed, true, "again")
      same(succeeded(await client.report({ message }), "report").reporter, "si:deejay", "signed")
      same(
        succeeded(await client.report({ message }, { anonymous: true }), "report").reporter,
        null,
        "anonymous"
      )
      same(succeeded(await client.iam(), "iam").app_id, "music", "descriptor")
      same(succeeded(await client.version(), "version").api_versions, ["v1"], "version")
      const event = succeeded(
        client.telemetry.record("musicfrontendevents", { type: "page.opened", data: {} }),
        "record"
      )
      same((await client.close()).delivered, 1, "the last flush")
      await eventually(
        async () => (await bench.command("rows", "musicfrontendevents", event.id)) === 1,
        "the event arrives in its table"
      )
      const token = (await stored())?.refresh_token ?? ""
      succeeded(await client.logout(), "logout")
      same((await bench.command("family", token)).status, "revoked", "the family")
      same(succeeded(await client.session(), "session"), null, "forgotten")
      same(await bench.command("headers", name, paths.me, "x-music-source"), ["web"], "source")
      same(await bench.command("headers", name, paths.me, "x-music-telemetry"), ["on"], "preference")
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
          const { client, fault, login, name, pass, stored } = makeLane(bench, kit, timeoutsFor(kind))
          if (call !== "login") await login()
          const before = await stored()
          await fault(kind, paths[call])
          switch (call) {
            case "login":
              await login()
              break
            case "refresh":
              pass(life)
              succeeded(await client.me(), title)
              same(
                await bench.command("family", before?.refresh_token ?? ""),
                { status: "active", rotations: 1 },
                title
              )
              break
            case "ting": {
              const key = kit.newIdempotencyKey()
              succeeded(await client.ting(tingOf(key)), title)
              same(await bench.command("tings", `si:deejay/${key}`), 1, title)
              break
            }
            case "report":
              succeeded(await client.report({ message }), title)
              break
            case "logout":
              succeeded(await client.logout(), title)
              same((await bench.command("family", before?.refresh_token ?? "")).status, "revoked", title)
              return
            case "me":
              succeeded(await client.me(), title)
              break
            default:
              succeeded(await client.subscribe(), title)
          }
          check((await bench.command("attempts", name, paths[call])) >= 2, `${title}: tried again`)
          const keys = await bench.command("headers", name, paths[call], "idempotency-key")
          same(new Set(keys).size, 1, `${title}: under one key`)
          same((await client.status()).state, "authenticated", `${title}: the session lives`)
        }
      )
  },
  {
    name: "an outage is never a logout: the call fails with its code, and the session is kept and works again",
    run: (bench, kit) =>
      each(
        [
          ...pairs(bench.thorough ? faults : ["cut-after"], ["refresh"]),
          ...pairs(["cut-after", "html-200-after"], ["me", "logout"])
        ],
        async ({ call, kind }) => {
          const title = `${call} under lasting ${kind}`
          const { clear, client, fault, pass, stored } = makeLane(bench, kit, {
            ...timeoutsFor(kind),
            deadlineMilliseconds: 700
          })
          succeeded(
            await client.login(await bench.command("slt"), { deadlineMilliseconds: 120_000 }),
            "login"
          )
          const before = await stored()
          await fault(kind, paths[call], 1_000)
          if (call === "refresh") pass(life)
          if (call === "logout") {
            const error = failed(await client.logout(), title)
            check(error.retryable && transient.includes(error.code), `${title}: ${error.code}`)
          } else {
            const status = await client.status()
            same(status.state, "unknown", title)
            if (status.state === "unknown")
              check(transient.includes(status.error.code), `${title}: ${status.error.code}`)
          }
          same((await stored())?.refresh_token, before?.refresh_token, `${title}: kept`)
          await clear()
          if (call === "logout") {
            succeeded(await client.logout({ deadlineMilliseconds: 120_000 }), title)
            return
          }
          same((await client.status({ deadlineMilliseconds: 120_000 })).state, "authenticated", title)
          const family = await bench.command("family", before?.refresh_token ?? "")
          same(family, { status: "active", rotations: call === "refresh" ? 1 : 0 }, title)
        }
      )
  },
  {
    name: "an answer that was lost in a crash is replayed after the restart",
    run: async (bench, kit) => {
      const { before, restarted } = await lostRefresh(bench, kit)
      await bench.command("advance", 300_000)
      succeeded(await restarted().me(), "after the restart")
      const family = await bench.command("family", before)
      same(family, { status: "active", rotations: 1 }, "replayed, not spent again")
    }
  },
  {
    name: "an answer that is lost for 10 minutes ends the session, and the error has a hint",
    run: async (bench, kit) => {
      const { before, restarted, stored } = await lostRefresh(bench, kit)
      await bench.command("advance", 601_000)
      const error = failed(await restarted().me(), "too late")
      same([error.code, error.details?.reason], ["logged_out", "lost"], "result")
      check(error.hint.includes("log in"), error.hint)
      same(await stored(), undefined, "the session is cleared")
      same((await bench.command("family", before)).status, "active", "no reuse")
    }
  },
  {
    name: "only the identity service ends a session: a proxy's 401 does not, a revocation does",
    run: async (bench, kit) => {
      const { client, clear, fault, login, pass, stored } = makeLane(bench, kit)
      await login()
      await fault("html-401", paths.me, 1_000)
      same((await client.status()).state, "unknown", "a 401 of the proxy")
      await clear()
      await fault("html-401", paths.refresh, 1_000)
      pass(life)
      same((await client.status()).state, "unknown", "the same at the refresh")
      await clear()
      same((await client.status()).state, "authenticated", "kept")
      await bench.command("revoke", (await stored())?.refresh_token ?? "")
      same(await client.status(), { state: "logged_out", reason: "revoked" }, "revoked")
      same(await stored(), undefined, "cleared")
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
    name: "many callers share one refresh",
    run: async (bench, kit) => {
      const { client, login, name, pass, stored } = makeLane(bench, kit)
      await login()
      const before = await stored()
      pass(life - 30_000)
      const all = await Promise.all(Array.from({ length: 20 }, () => client.me()))
      for (const result of all) succeeded(result, "me")
      same(await bench.command("attempts", name, paths.refresh), 1, "early")
      await bench.command("advance", life)
      const late = await Promise.all(Array.from({ length: 20 }, () => client.me()))
      for (const result of late) succeeded(result, "me")
      same(await bench.command("attempts", name, paths.refresh), 2, "and when refused")
      same(
        await bench.command("family", before?.refresh_token ?? ""),
        { status: "active", rotations: 2 },
        "one rotation each time"
      )
    }
  },
  {
    name: "an aborted call ends at once, and its refresh is saved",
    run: async (bench, kit) => {
      const { client, fault, login, name, pass, stored } = makeLane(bench, kit)
      await login()
      const before = await stored()
      await fault("delay", paths.refresh)
      pass(life)
      const controller = new AbortController()
      const taken = client.me({ signal: controller.signal })
      // The refresh must be in flight before the abort.
      await eventually(
        async () => (await bench.command("attempts", name, paths.refresh)) === 1,
        "the refresh is in flight"
      )
      controller.abort()
      same(failed(await taken, "taken back").code, "aborted", "code")
      await eventually(
        async () => (await stored())?.refresh_token !== before?.refresh_token,
        "the refresh completes and is saved"
      )
      succeeded(await client.me(), "with the new pair")
      const gone = AbortSignal.abort()
      same(failed(await client.iam({ signal: gone }), "before it began").code, "aborted", "code")
    }
  },
  {
    name: "the same short-lived token is one login, also after a crash",
    run: async (bench, kit) => {
      const { clear, client, fault, name, restarted, stored } = makeLane(bench, kit)
      const slt = await bench.command("slt")
      await fault("cut-after", paths.login, 1_000)
      failed(await client.login(slt, { deadlineMilliseconds: 500 }), "no answer")
      await clear()
      succeeded(await restarted().login(slt), "the same token again")
      const attempts = await bench.command("attempts", name, paths.login)
      const first = await stored()
      succeeded(await client.login(slt), "and again")
      same(await bench.command("attempts", name, paths.login), attempts, "without a call")
      same(await stored(), first, "the same session")
      const keys = await bench.command("headers", name, paths.login, "idempotency-key")
      same(new Set(keys).size, 1, "one key")
      check(!keys.includes(slt), "the key is not the token")
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
      const baseUrl = `${bench.base}/${testing.name}`
      const beside = kit.createMusicClient({ baseUrl, source: "cli", telemetry: false, sessionStore })
      same((await beside.status()).state, "logged_out", "production has none")
    }
  },
  {
    name: "telemetry that may have arrived is sent again and stored once",
    run: async (bench, kit) => {
      const { client, fault, name } = makeLane(bench, kit, { telemetry: true })
      const { id } = succeeded(
        client.telemetry.record("musicfrontendanalytics", { type: "seen", data: {} }),
        "record"
      )
      // Not a cut connection: some browsers repeat a request by themselves after one.
      await fault("html-502-after", paths.telemetry)
      check(failed(await client.telemetry.flush(), "lost").retryable, "kept")
      same(client.telemetry.stats().queued, 1, "queued")
      same(succeeded(await client.telemetry.flush(), "again").delivered, 1, "delivered")
      same(await bench.command("attempts", name, paths.telemetry), 2, "twice sent")
      await eventually(
        async () => (await bench.command("rows", "musicfrontendanalytics", id)) === 1,
        "stored once"
      )
    }
  },
  {
    name: "events, metadata, raw calls and relative keys work with the real service",
    run: async (bench, kit) => {
      const events: Array<ClientEvent> = []
      const { client } = makeLane(bench, kit, {
        version: "0.0.0",
        onEvent: (event) => events.push(event)
      })
      succeeded(await client.login(await bench.command("slt")), "login")
      const key = kit.newIdempotencyKey()
      const { metadata, ok } = await client
        .ting({ type: "music.trigger.fired", key: `raw/${key}`, data: { key } })
        .then((result) => (result.ok ? result : { ok: false, metadata: undefined }))
      same(ok, true, "ting")
      same(await bench.command("tings", `si:deejay/raw/${key}`), 1, "under the whole key")
      check(/^web-[0-9a-f-]{36}$/.test(metadata?.requestId ?? ""), `${metadata?.requestId}`)
      check((metadata?.rateLimits.length ?? 0) > 0, "quotas")
      const raw = succeeded(await client.request("GET", paths.me, { session: "required" }), "raw")
      same([raw.status, (raw.body as Me).actor.public_id], [200, "si:deejay"], "raw")
      const again = await client.request("POST", paths.ting, {
        body: { type: "music.trigger.fired", key: `si:deejay/raw/${key}`, data: { key } }
      })
      same((succeeded(again, "raw ting").body as Ting).replayed, true, "raw ting")
      // A browser's preflight of an unknown path fails.
      if (!bench.page)
        same(
          failed(await client.request("GET", `${api}/nothing`), "no such path").status,
          404,
          "no such path"
        )
      const { min_cli } = succeeded(await client.version(), "version")
      const outdated = events.filter(({ type }) => type === "outdated")
      same(outdated, [{ type: "outdated", version: "0.0.0", minVersion: min_cli }], "outdated")
      succeeded(await client.logout(), "logout")
      const session = events.flatMap(({ type }) => (type.startsWith("logged") ? [type] : []))
      same(session, ["logged_in", "logged_out"], "events of the session")
      check(!/oat_|ort_/.test(JSON.stringify(events)), "no token")
    }
  }
]
