export { securityHeadersOfEveryAnswer } from "../world/Driver.ts"
