import type { Play } from "../Suite.ts"
import { fuzz } from "./Fuzzing.ts"

/** 100,000 requests in a full run. */
export const play: Play = ({ count = 100_000, log, seed }) => fuzz({ seed, count, people: 90, log })
