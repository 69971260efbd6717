/** What the log says when IAM refuses the secret of the application. */
import { describe, expect } from "vitest"
import { Effect } from "effect"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { it } from "../world/Test.ts"
import { inMemory, outcomeOf, refusal, requests, type Sent, withHeaders } from "./support.ts"

const prepare = Effect.gen(function* () {
  const server = yield* inMemory({ settings: { iam: { introspectionCacheSeconds: 0 } } })
  const { access_token, refresh_token } = yield* server.login()
  const slt = (actor: string) => server.upstreams.iam.controls.mintSlt(production, { appId: "music", actor })
  const sent = {
    login: requests.login(slt("si:lyra")),
    me: requests.me(access_token),
    refresh: requests.refresh(refresh_token),
    logout: requests.logout(refresh_token),
    ting: requests.send(access_token)
  }
  const outcome = (one: Sent) => Effect.map(server.send(one), outcomeOf)
  const said = () => server.lines.filter(({ message }) => /secret/.test(message)).map(({ level }) => level)
  return { ...server, outcome, said, sent }
})

const refused = "dependency_misconfigured"

describe("IAM refuses the application's secret:", () => {
  it.scoped("one error line names the setting, whatever call shows it", function* () {
    for (const name of ["login", "me", "refresh", "logout", "ting"] as const) {
      const { lines, outcome, said, sent, upstreams } = yield* prepare
      upstreams.iam.controls.rotateSecret(production, "music")
      const outcomes = yield* Effect.forEach([sent[name], sent.me, sent.me], outcome)
      expect([name, outcomes, said()]).toEqual([name, [refused, refused, refused], ["ERROR"]])
      const log = JSON.stringify(lines)
      expect(log).toContain("MUSIC_IAM_APP_SECRET")
      expect(upstreams.iam.minted.filter((credential) => log.includes(credential))).toEqual([])
    }
  })

  it.scoped("a refusal after an acceptance is a new one", function* () {
    const { outcome, said, sent, upstreams } = yield* prepare
    for (const _ of [1, 2]) {
      upstreams.plan({ path: "introspect", times: 2, fault: refusal(401, "invalid_client") })
      expect(yield* Effect.replicateEffect(outcome(sent.me), 3)).toEqual([refused, refused, 200])
    }
    // What was refused spent nothing: the same request succeeds after it.
    upstreams.plan({ path: "tokens", times: 1, fault: refusal(401, "invalid_client") })
    expect(yield* Effect.replicateEffect(outcome(sent.login), 2)).toEqual([refused, 200])
    expect(said()).toEqual(["ERROR", "ERROR", "ERROR"])
  })

  // Under the real clock: after a first refusal of a proof the list of endpoints is fetched again, with a pause.
  it.scopedLive("refused proofs and secrets of testing planes are none", function* () {
    const { outcome, said, sent, upstreams } = yield* prepare
    upstreams.plan({ path: "proof", times: 2, fault: refusal(401, "invalid_client") })
    expect(yield* outcome(sent.ting)).toBe(refused)
    const { environmentId, musicSecret } = upstreams.seeded.environment
    const login = (secret: string) =>
      outcome(withHeaders({ "x-testing-environment-key": secret })(requests.login("si:deejay")))
    expect(yield* login(`ask_${"x".repeat(43)}`)).toBe("testing_secret_invalid")
    expect(yield* login(musicSecret)).toBe(200)
    upstreams.iam.controls.rotateSecret(environmentId, "music")
    expect(yield* login(musicSecret)).toBe("testing_secret_invalid")
    expect([yield* outcome(sent.me), said()]).toEqual([200, []])
  })
})
