import type { Random } from "../../durability/Random.ts"
import type { Draft } from "./Draft.ts"
import type { World } from "./World.ts"

/** In this order; the signature of a webhook is made between `text` and `signed`. */
export const stages = ["value", "text", "signed", "head", "frame"] as const

/** One change of a request. */
export interface Mutation {
  readonly name: string
  readonly stage: (typeof stages)[number]
  /** What was changed, for the story of a failure; undefined when the request has nothing of that kind. */
  readonly apply: (draft: Draft, random: Random, world: World) => string | undefined
}
