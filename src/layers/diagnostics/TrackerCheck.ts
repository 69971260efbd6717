/** Whether the tracker's repository is there, takes issues, and takes them from our token; nothing is filed. */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { SettingsValues } from "../../services/Settings.ts"
import { Unknown, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { judge } from "../tracker/GitHubResponses.ts"
import { type Answer, type Ask, makeRequests } from "../tracker/GitHubRequests.ts"
import { type Check, type Finding, fail, pass, patience, skip, told, warn } from "./Finding.ts"

const Repository = Schema.Struct({
  full_name: Schema.String,
  archived: Schema.optional(Schema.Boolean),
  has_issues: Schema.optional(Schema.Boolean)
})

const day = 24 * 60 * 60 * 1_000
/** Milliseconds before its end at which a token is spoken of. */
const soon = 14 * day

/** `2026-12-21 07:27:00 UTC`, or with an offset. */
const endOf = ({ headers }: Answer): number | undefined => {
  const text = String(headers["github-authentication-token-expiration"] ?? "")
  const end = Date.parse(text.replace(" UTC", "Z").replace(" ", "T").replace(" ", ""))
  return Number.isNaN(end) ? undefined : end
}

const tokenFinding = (answer: Answer, now: number): Finding => {
  const end = endOf(answer)
  if (end === undefined) return pass("tracker token", "accepted; it tells no end")
  const date = new Date(end).toISOString().slice(0, 10)
  return end - now < soon
    ? warn("tracker token", `accepted, but it ends on ${date}`, "make a new one and set MUSIC_GITHUB_TOKEN")
    : pass("tracker token", `accepted until ${date}`)
}

const refusedToken = fail(
  "tracker token",
  "the tracker refuses it: wrong, expired or revoked",
  "make a token with the permission Issues: read and write on the repository, and set MUSIC_GITHUB_TOKEN"
)

const later = (name: string, why: string): Finding =>
  warn(name, `not to be checked now: ${why}`, "run the check again")

const rightsName = "tracker rights"

export const checkTracker = (settings: Pick<SettingsValues, "tracker">): Check =>
  Option.match(settings.tracker, {
    onNone: () =>
      Effect.succeed([
        skip(
          "tracker",
          "off: reports are stored and not filed",
          "to file them, set MUSIC_GITHUB_TOKEN and MUSIC_GITHUB_REPOSITORY"
        )
      ]),
    onSome: ({ owner, repository, token, url }) => {
      const name = `${owner}/${repository}`
      const { send } = makeRequests({ url, token })
      const place = { owner, repo: repository }
      const ask = (request: Ask) =>
        Effect.timeoutFail(send(request), {
          duration: Duration.seconds(patience),
          onTimeout: () =>
            new Unknown({ dependency: "tracker", reason: `no answer within ${patience} seconds` })
        })

      /** Who may file learns that the title is missing; who may not is refused before. Nothing is filed either way. */
      const rights = Effect.gen(function* () {
        const answer = yield* ask({
          method: "POST",
          route: "/repos/{owner}/{repo}/issues",
          path: place,
          body: { body: "A check of permissions: without a title this is refused." }
        })
        if (answer.status === 422) return pass(rightsName, "the token may file issues")
        const failure = judge(answer, yield* Clock.currentTimeMillis, 0)
        if (failure._tag !== "Refused" || !["permission", "not_found"].includes(failure.code))
          return later(rightsName, told(failure))
        const needed = answer.headers["x-accepted-github-permissions"]
        return fail(
          rightsName,
          `the token may not file issues in ${name}${needed === "issues=write" ? " (it lacks issues=write)" : ""}`,
          "give the token the permission Issues: read and write on this repository"
        )
      }).pipe(Effect.catchAll((failure) => Effect.succeed(later(rightsName, told(failure)))))

      const read = (answer: Answer): Finding => {
        const body = Schema.decodeUnknownEither(Repository)(answer.data)
        if (Either.isLeft(body))
          return fail(
            "tracker",
            `what answers at ${url} is not the tracker`,
            "set MUSIC_GITHUB_URL to its API, such as https://api.github.com"
          )
        if (body.right.archived === true)
          return fail(
            "tracker",
            `${name} is archived: nothing can be filed`,
            "unarchive it, or set MUSIC_GITHUB_REPOSITORY to another one"
          )
        return body.right.has_issues === false
          ? fail(
              "tracker",
              `issues are disabled in ${name}`,
              "enable Issues in the settings of the repository, or set MUSIC_GITHUB_REPOSITORY to another one"
            )
          : pass("tracker", `${name} is there and takes issues`)
      }

      const refused = (failure: UpstreamFailure): ReadonlyArray<Finding> => {
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
                "set MUSIC_GITHUB_REPOSITORY right, or give the token access to the repository"
              )
            ]
          case "permission":
            return [
              fail(
                "tracker",
                `the token may not look at ${name}`,
                "give the token the permission Issues: read and write on this repository"
              )
            ]
          default:
            return [later("tracker", told(failure))]
        }
      }

      return Effect.gen(function* () {
        const answer = yield* ask({ method: "GET", route: "/repos/{owner}/{repo}", path: place })
        const now = yield* Clock.currentTimeMillis
        if (answer.status !== 200) return refused(judge(answer, now, 0))
        const found = read(answer)
        const accepted = tokenFinding(answer, now)
        return found.status === "PASS"
          ? [found, accepted, yield* rights]
          : [found, accepted, skip(rightsName, "the repository takes no issues")]
      }).pipe(
        Effect.catchAll((failure) =>
          Effect.succeed([
            fail(
              "tracker",
              `nothing answers at ${url} (${failure.reason})`,
              "set MUSIC_GITHUB_URL to the tracker's API, and let this machine reach it"
            )
          ])
        )
      )
    }
  })
