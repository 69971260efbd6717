export { makeSteppedClock } from "../world/Time.ts"
