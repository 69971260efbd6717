export { makeManualClock } from "../world/Time.ts"
