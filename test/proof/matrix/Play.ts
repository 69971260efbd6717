import * as Effect from "effect/Effect"
import type { Play } from "../Suite.ts"
import { playCells } from "./Matrix.ts"

/** The fault matrix; `count` cells of it, or all. */
export const play: Play = async (options) => {
  const { broken, calls, cells, failures, operations, paths, requests } = await Effect.runPromise(
    playCells(options)
  )
  return {
    figures: {
      operations,
      paths,
      failures,
      cells,
      requests,
      "upstream calls": calls,
      wrong: broken.length
    },
    broken
  }
}
