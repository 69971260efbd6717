/** Searches for a marker in a separate process: `<url of the tracker> <marker>`. Prints the numbers of the issues found. */
import { HttpClient } from "@effect/platform/HttpClient"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { makeGitHub } from "../../../src/layers/tracker/GitHub.ts"
import { Connections } from "../../../src/layers/upstream/Connections.ts"

const [, , url = "", marker = ""] = process.argv

const search = Effect.gen(function* () {
  const token = Redacted.make("github_pat_A1b2C3d4E5f6G7h8I9j0")
  const tracker = makeGitHub(yield* HttpClient, { url, token, owner: "harbor", repository: "music" })
  const found = yield* tracker.findByMarker(marker, 0)
  yield* Effect.sync(() => process.stdout.write(JSON.stringify(found.map(({ number }) => number))))
})

await Effect.runPromise(Effect.provide(search, Connections))
