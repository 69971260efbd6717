/** Checks that the tracker's repository exists, accepts issues, and accepts them from our token. Files nothing. */
import type { HttpClient } from "@effect/platform/HttpClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { SettingsValues } from "../../services/Settings.ts"
import type { UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { gitHubFailure } from "../tracker/GitHubFailures.ts"
import { type GitHubRequest, gitHubTarget, toUpstreamRequest } from "../tracker/GitHubRequests.ts"
import { tokenExpiry } from "../tracker/TokenExpiry.ts"
import { makeSend } from "../upstream/Upstream.ts"
import { readJson, type UpstreamResponse } from "../upstream/UpstreamResponse.ts"
import {
  type Check,
  callTimeoutSeconds,
  type Finding,
  fail,
  fixOfCall,
  pass,
  skip,
  summarizeFailure,
  warn
} from "./Finding.ts"

const readRepository = readJson(
  Schema.Struct({
    full_name: Schema.String,
    archived: Schema.optional(Schema.Boolean),
    has_issues: Schema.optional(Schema.Boolean)
  })
)

const day = 24 * 60 * 60 * 1_000
/** Milliseconds before its expiry from which a token is warned about. */
const soon = 14 * day

const tokenFinding = (response: UpstreamResponse, now: number): Finding => {
  const end = tokenExpiry(response)
  if (end === undefined) return pass("tracker token", "accepted; its expiry is unknown")
  const date = new Date(end).toISOString().slice(0, 10)
  return end - now < soon
    ? warn(
        "tracker token",
        `accepted, but it expires on ${date}`,
        "create a new one and set MUSIC_GITHUB_TOKEN"
      )
    : pass("tracker token", `accepted until ${date}`)
}

const refusedToken = fail(
  "tracker token",
  "the tracker refuses it: wrong, expired or revoked",
  "create a token with the permission Issues: read and write on the repository, and set MUSIC_GITHUB_TOKEN"
)

const later = (name: string, why: string): Finding =>
  warn(name, `not verifiable now: ${why}`, "run the check again")

const rightsName = "tracker rights"

export const checkTracker = (client: HttpClient, settings: Pick<SettingsValues, "tracker">): Check =>
  Option.match(settings.tracker, {
    onNone: () =>
      Effect.succeed([
        skip(
          "tracker",
          "off: reports are stored and not filed",
          "to file them, set MUSIC_GITHUB_TOKEN and MUSIC_GITHUB_REPOSITORY"
        )
      ]),
    onSome: (target) => {
      const { owner, repository, url } = target
      const name = `${owner}/${repository}`
      const prepare = toUpstreamRequest(target)
      const send = makeSend(client, {
        ...gitHubTarget(url),
        timeoutSeconds: callTimeoutSeconds
      })
      const call = (request: GitHubRequest) => send(prepare(request))

      /** With the right to file, GitHub refuses the missing title; without it, the token. Files nothing either way. */
      const rights = Effect.gen(function* () {
        const response = yield* call({
          method: "POST",
          template: "/repos/{owner}/{repo}/issues",
          body: { body: "A check of permissions: this request is refused because it has no title." }
        })
        if (response.status === 422) return pass(rightsName, "the token can file issues")
        const failure = gitHubFailure(response, yield* Clock.currentTimeMillis, 0)
        if (failure._tag !== "Refused" || !["permission", "not_found"].includes(failure.code))
          return later(rightsName, summarizeFailure(failure))
        const needed = response.headers["x-accepted-github-permissions"]
        return fail(
          rightsName,
          `the token cannot file issues in ${name}${needed === "issues=write" ? " (it lacks issues=write)" : ""}`,
          "give the token the permission Issues: read and write on this repository"
        )
      }).pipe(Effect.catchAll((failure) => Effect.succeed(later(rightsName, summarizeFailure(failure)))))

      const repositoryFinding = (response: UpstreamResponse): Finding => {
        const body = readRepository(response)
        if (Either.isLeft(body))
          return fail(
            "tracker",
            `the service at ${url} is not the tracker`,
            "set MUSIC_GITHUB_URL to its API, such as https://api.github.com"
          )
        if (body.right.archived === true)
          return fail(
            "tracker",
            `${name} is archived: no issue can be filed`,
            "unarchive it, or set MUSIC_GITHUB_REPOSITORY to another one"
          )
        return body.right.has_issues === false
          ? fail(
              "tracker",
              `issues are disabled in ${name}`,
              "enable Issues in the settings of the repository, or set MUSIC_GITHUB_REPOSITORY to another one"
            )
          : pass("tracker", `${name} exists and accepts issues`)
      }

      const failureFindings = (failure: UpstreamFailure): ReadonlyArray<Finding> => {
        switch (failure._tag === "Refused" ? failure.code : "") {
          case "bad_credentials":
            return [skip("tracker", "the token is refused"), refusedToken]
          case "moved":
            return [
              fail("tracker", `${name} was renamed or moved`, "set MUSIC_GITHUB_REPOSITORY to its new name")
            ]
          case "not_found":
            return [
              fail(
                "tracker",
                `${name} does not exist, or the token cannot see it`,
                "correct MUSIC_GITHUB_REPOSITORY, or give the token access to the repository"
              )
            ]
          case "permission":
            return [
              fail(
                "tracker",
                `the token cannot read ${name}`,
                "give the token the permission Issues: read and write on this repository"
              )
            ]
          default:
            return [later("tracker", summarizeFailure(failure))]
        }
      }

      return Effect.gen(function* () {
        const response = yield* call({ method: "GET", template: "/repos/{owner}/{repo}" })
        const now = yield* Clock.currentTimeMillis
        if (response.status !== 200) return failureFindings(gitHubFailure(response, now, 0))
        const found = repositoryFinding(response)
        const accepted = tokenFinding(response, now)
        return found.status === "PASS"
          ? [found, accepted, yield* rights]
          : [found, accepted, skip(rightsName, "the repository accepts no issues")]
      }).pipe(
        Effect.catchAll((failure) =>
          Effect.succeed([
            fail(
              "tracker",
              `no response from ${url} (${failure.reason})`,
              fixOfCall(
                failure,
                "set MUSIC_GITHUB_URL to the tracker's API, and allow this machine to connect to it"
              )
            )
          ])
        )
      )
    }
  })
