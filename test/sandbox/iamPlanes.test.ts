import { createHash } from "node:crypto"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import {
  type Bench,
  basic,
  type HeaderMap,
  key,
  loggedIn,
  outcome,
  send,
  startBench,
  textAt
} from "./iamClient.ts"

const rootKeyHeader = "x-testing-environment-key"
const selectorHeader = "x-testing-application"
const contextPath = "/api/v1/application/testing-context"

let bench: Bench
beforeEach(async () => {
  bench = await startBench()
})
afterEach(() => bench.iam.close())

const music = () => basic("music", bench.seeded.environment.musicSecret)

/** A call with exactly these headers. */
const bare = (path: string, headers: HeaderMap, method = "GET") => send(bench.iam.url, method, path, headers)

const loginByName = async (name: string, idempotencyKey = key(name)) => {
  const answer = await bench.testing.login(name, idempotencyKey)
  return {
    answer,
    access: textAt(answer.json, "access_token"),
    refresh: textAt(answer.json, "refresh_token")
  }
}

describe("testing context", () => {
  it("describes plane and application without any credential", async () => {
    const { environment } = bench.seeded
    const expected = {
      environment: {
        environment_id: environment.environmentId,
        org_id: "acme",
        name: "music e2e",
        description: null,
        version: 1,
        key_generation: 1,
        cleaned_at: null,
        created_at: "2026-09-25T10:15:30Z",
        creator_type: "carbon",
        creator_id: "c:ana"
      },
      environment_id: environment.environmentId,
      application: {
        app_id: "music",
        app_name: "Music",
        app_logo: null,
        base_url: "https://music.example",
        app_scope: {
          iam: ["self.identity.read", "self.profile.read"],
          external: [
            { app_id: "ting", endpoint_id: "subscriptions.register" },
            { app_id: "ting", endpoint_id: "tings.send" }
          ]
        },
        webhook_scope: ["full"],
        testing_idle_days: 30
      },
      webhook_key_digest: createHash("sha256").update(environment.rootKey).digest("hex")
    }
    const byApplication = await bare(contextPath, { authorization: music(), [selectorHeader]: music() })
    expect(byApplication.status).toBe(200)
    expect(byApplication.json).toEqual(expected)
    expect(bench.iam.minted).not.toEqual([])
    for (const secret of bench.iam.minted) expect(byApplication.text).not.toContain(secret)
  })

  it("is forbidden without a plane, for a caller that IAM authenticates", async () => {
    const stranger = { authorization: basic("music", bench.seeded.environment.musicSecret) }
    expect(outcome(await bare(contextPath, stranger))).toBe("401 invalid_client")
    expect(outcome(await bench.production.get("/application/testing-context"))).toBe("403 forbidden")
  })
})

describe("application selector", () => {
  const context = (selector: string | ReadonlyArray<string>, authorization?: string) =>
    bare(contextPath, {
      [selectorHeader]: selector,
      ...(authorization === undefined ? {} : { authorization })
    })

  it("answers unauthenticated to an unknown, malformed, repeated or production secret", async () => {
    const unpadded = music().replace(/=+$/, "")
    for (const selector of [
      "",
      "Basic",
      unpadded,
      `Bearer ${bench.seeded.environment.musicSecret}`,
      basic("music", "ask_short"),
      basic("music", `ask_${"x".repeat(43)}`),
      basic("music", bench.seeded.production.musicSecret),
      [music(), music()]
    ]) {
      const answer = await context(selector, typeof selector === "string" ? selector : music())
      expect(outcome(answer)).toBe("401 unauthenticated")
      expect(answer.headers["www-authenticate"]).toBe("Bearer")
    }
  })

  it("answers invalid_client when the secret belongs to another application id", async () => {
    const crossed = basic("ting", bench.seeded.environment.musicSecret)
    expect(outcome(await context(crossed, crossed))).toBe("401 invalid_client")
    const elsewhere = { authorization: crossed, [selectorHeader]: crossed }
    expect(outcome(await bare("/api/v1/nothing", elsewhere))).toBe("401 invalid_client")
  })

  it("requires byte-identical credentials in Authorization", async () => {
    expect(outcome(await context(music()))).toBe("401 invalid_client")
    expect(outcome(await context(music(), music().replace("Basic", "basic")))).toBe("401 invalid_client")
    const ting = basic("ting", bench.seeded.environment.tingSecret)
    expect(outcome(await context(music(), ting))).toBe("401 invalid_client")
    expect(outcome(await context(music(), `Bearer oat_${"x".repeat(43)}`))).toBe("401 invalid_client")
  })
})

describe("order", () => {
  it("resolves the plane before authentication, rate limit and body", async () => {
    const wrong = { authorization: "Basic !!!!", [rootKeyHeader]: "unknown" }
    expect(outcome(await bare("/api/v1/app-auth/tokens", wrong, "POST"))).toBe("401 unauthenticated")
    expect(outcome(await bare("/api/v1/nothing", wrong, "POST"))).toBe("401 unauthenticated")
  })
})

describe("login by public id", () => {
  it("makes a new session for all current organisations with all approved scopes", async () => {
    const { access, answer } = await loginByName("c:ana")
    expect(answer.json).toMatchObject({
      actor: { type: "carbon", public_id: "c:ana" },
      scope: "obo:ting:subscriptions.register obo:ting:tings.send self.identity.read self.profile.read"
    })
    const seen = await bench.testing.introspect(access)
    const { environmentId, organizations } = bench.seeded.environment
    expect(seen.json).toMatchObject({
      authorizations: [
        { org_id: "acme", organization_id: organizations.acme, testing_environment_id: environmentId },
        { org_id: "zenith", organization_id: organizations.zenith, testing_environment_id: environmentId }
      ]
    })
  })

  it("is not single-use: each key makes an independent session, the same key replays", async () => {
    const first = await loginByName("si:deejay", key("one"))
    const second = await loginByName("si:deejay", key("two"))
    const replay = await loginByName("si:deejay", key("one"))
    expect(replay.answer.text).toBe(first.answer.text)
    expect(replay.answer.headers["idempotency-replayed"]).toBe("true")
    const session = async (access: string) =>
      textAt((await bench.testing.introspect(access)).json, "session_id")
    expect(await session(second.access)).not.toBe(await session(first.access))
    await bench.testing.revoke(first.refresh)
    expect((await bench.testing.introspect(first.access)).json).toEqual({ active: false })
    expect((await bench.testing.introspect(second.access)).json.active).toBe(true)
  })

  it("refuses actors that are unknown or malformed, and a Silicon without organisation", async () => {
    const { controls } = bench.iam
    const plane = bench.seeded.environment.environmentId
    for (const name of ["si:nobody", "deejay", "c:", "si:deejay ", "x".repeat(102)])
      expect(outcome(await bench.testing.login(name, key("wrong")))).toBe("400 invalid_grant")
    controls.removeMembership(plane, "si:deejay", "acme")
    expect(outcome(await bench.testing.login("si:deejay"))).toBe("400 invalid_grant")
  })

  it("gives a Carbon without organisation tokens and an empty list", async () => {
    const { controls } = bench.iam
    const plane = bench.seeded.environment.environmentId
    controls.addActor(plane, "c:solo")
    const { access } = await loginByName("c:solo")
    expect((await bench.testing.introspect(access)).json).toMatchObject({ active: true, authorizations: [] })
  })

  it("accepts SLTs of its plane too", async () => {
    const slt = bench.iam.controls.mintSlt(bench.seeded.environment.environmentId, {
      appId: "music",
      actor: "si:lyra"
    })
    expect((await bench.testing.login(slt, key("one"))).status).toBe(200)
    expect(outcome(await bench.testing.login(slt, key("two")))).toBe("400 invalid_grant")
  })
})

describe("isolation", () => {
  it("separates tokens, SLTs and secrets in both directions", async () => {
    const production = await loggedIn(bench)
    const testing = await loginByName("si:deejay")
    for (const [client, foreign] of [
      [bench.testing, production],
      [bench.production, testing]
    ] as const) {
      for (const token of [foreign.access, foreign.refresh]) {
        expect((await client.introspect(token)).json).toEqual({ active: false })
        expect((await client.revoke(token)).status).toBe(200)
      }
      expect(outcome(await client.refresh(foreign.refresh))).toBe("400 invalid_grant")
      expect(outcome(await client.exchange({ subject: foreign.access }))).toBe("400 invalid_subject_token")
    }
    expect((await bench.production.introspect(production.access)).json.active).toBe(true)
    expect((await bench.testing.introspect(testing.access)).json.active).toBe(true)
    const slt = bench.iam.controls.mintSlt("production", { appId: "music", actor: "si:deejay" })
    expect(outcome(await bench.testing.login(slt))).toBe("400 invalid_grant")
    const crossed = { authorization: music() }
    expect(outcome(await bench.production.get("/obo-access/applications/ting/endpoints", crossed))).toBe(
      "401 invalid_client"
    )
  })

  it("separates two environments", async () => {
    const { controls } = bench.iam
    const other = controls.addEnvironment({ orgId: "acme", name: "other" })
    const { secret } = controls.importApp(other.environmentId, "music")
    const { access } = await loginByName("si:deejay")
    const authorization = basic("music", secret)
    const seen = await bench.testing.introspect(access, { authorization, [selectorHeader]: authorization })
    expect(seen.json).toEqual({ active: false })
  })
})
