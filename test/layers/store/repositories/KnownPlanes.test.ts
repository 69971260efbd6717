import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { onBoth } from "../Stores.ts"

const first = { environmentId: "env-1", webhookKeyDigest: "digest-1", now: 1_000 }

onBoth("KnownPlanes", ({ freshPath, freshStore, rawQuery, withStore }) => {
  it.scoped("finds the environment by the digest of its root key only", function* () {
    const { planes } = yield* freshStore
    yield* planes.remember(first)
    yield* planes.remember({ environmentId: "env-2", webhookKeyDigest: "digest-2", now: 1_000 })
    deepStrictEqual(yield* planes.findByKeyDigest("digest-1"), Option.some("env-1"))
    deepStrictEqual(yield* planes.findByKeyDigest("digest-2"), Option.some("env-2"))
    deepStrictEqual(yield* planes.findByKeyDigest("digest-3"), Option.none())
  })

  it.scoped("an environment has the newest key only", function* () {
    const { planes } = yield* freshStore
    yield* planes.remember(first)
    yield* planes.remember({ ...first, webhookKeyDigest: "digest-new", now: 2_000 })
    deepStrictEqual(yield* planes.findByKeyDigest("digest-1"), Option.none())
    deepStrictEqual(yield* planes.findByKeyDigest("digest-new"), Option.some("env-1"))
  })

  it.scoped("of environments with the same key, the one that was remembered last is found", function* () {
    const { planes } = yield* freshStore
    const second = { ...first, environmentId: "env-2" }
    yield* planes.remember({ ...second, now: 1_000 })
    yield* planes.remember({ ...first, now: 2_000 })
    deepStrictEqual(yield* planes.findByKeyDigest("digest-1"), Option.some("env-1"))
    yield* planes.remember({ ...second, webhookKeyDigest: "digest-2", now: 3_000 })
    yield* planes.remember({ ...second, now: 4_000 })
    deepStrictEqual(yield* planes.findByKeyDigest("digest-1"), Option.some("env-2"))
  })

  it.scoped("a known key is not written again", function* () {
    const path = yield* freshPath
    yield* withStore(path, ({ planes }) =>
      Effect.zipRight(planes.remember(first), planes.remember({ ...first, now: 2_000 }))
    )
    deepStrictEqual(yield* rawQuery(path, "SELECT remembered_at FROM known_planes"), [
      { remembered_at: 1_000 }
    ])
  })
})
