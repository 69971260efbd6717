import type { Play } from "../Suite.ts"
import { playCells } from "./Matrix.ts"

/** The fault matrix; `count` cells of it, or all. */
export const play: Play = async (options) => {
  const { broken, calls, cells, requests } = await playCells(options)
  return { figures: { cells, requests, "upstream calls": calls, wrong: broken.length }, broken }
}
