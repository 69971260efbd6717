/** Checks the options. A problem fails every call before anything is sent or stored; construction never throws. */
import { clientVersionMaxLength, clientVersionPattern, testingSecretPattern } from "../src/schema/Patterns.ts"
import { invalidInput, type OptionsProblem, serviceFailure } from "./failures/Failures.ts"
import { longestTimer } from "./calls/Time.ts"
import type { MusicClientOptions } from "./Options.ts"
import { isGiven } from "./Values.ts"

/** Addresses that end like this are of one call, or of a page of the service; the client adds the paths itself. */
const callPath = /\/+(?:api(?:\/.*)?|docs|openapi\.json|healthz|readyz|webhook)\/*$/

const findAddressProblem = (baseUrl: unknown): OptionsProblem | undefined => {
  const hint = "Give the address of the service as baseUrl, such as https://music.example."
  if (typeof baseUrl !== "string" || !URL.canParse(baseUrl) || !/^https?:$/.test(new URL(baseUrl).protocol))
    return invalidInput("baseUrl", "must be an http or https URL", hint)
  const { hash, origin, password, pathname, search, username } = new URL(baseUrl)
  const right = `${origin}${pathname.replace(callPath, "").replace(/\/+$/, "")}`
  const refuse = (problem: string) => invalidInput("baseUrl", problem, `Use ${right} as baseUrl.`)
  if (username !== "" || password !== "") return refuse("must not contain a name or password")
  // An empty `?` or `#` would also end the address in front of the path of each call.
  if (search !== "" || hash !== "" || /[?#]/.test(baseUrl)) return refuse("must not have a query or fragment")
  return callPath.test(pathname) ? refuse(`must not contain ${callPath.exec(pathname)?.[0]}`) : undefined
}

export const isDuration = (value: unknown): boolean =>
  typeof value === "number" && value > 0 && value <= longestTimer

const durations = ["deadlineMilliseconds", "attemptMilliseconds"] as const

/** The problem of a time that was given for one call. */
export const findDeadlineProblem = (deadlineMilliseconds: unknown): OptionsProblem | undefined =>
  isGiven(deadlineMilliseconds) && !isDuration(deadlineMilliseconds)
    ? invalidInput("deadlineMilliseconds", `must be a number above 0 and at most ${longestTimer}`)
    : undefined

const hasMethods = (value: unknown, ...methods: ReadonlyArray<string>): boolean =>
  typeof value === "object" &&
  value !== null &&
  methods.every((name) => name in value && typeof (value as Record<string, unknown>)[name] === "function")

const isVersion = (value: unknown): boolean =>
  typeof value === "string" && value.length <= clientVersionMaxLength && clientVersionPattern.test(value)

/** Returns the first problem. Programs without a type checker may pass any value. */
export const findOptionsProblem = (options: MusicClientOptions): OptionsProblem | undefined => {
  const address = findAddressProblem(options.baseUrl)
  if (address !== undefined) return address
  if (!["cli", "daemon", "web"].includes(options.source))
    return invalidInput("source", "must be cli, daemon or web")
  if (typeof options.telemetry !== "boolean") return invalidInput("telemetry", "must be true or false")
  const { testingKey } = options
  // An empty or malformed key is a mistake in a test's configuration; it must never select production.
  const isSecret = typeof testingKey === "string" && testingSecretPattern.test(testingKey)
  if ("testingKey" in options && testingKey !== null && !isSecret)
    return serviceFailure("testing_secret_invalid", {
      hint: "Give testingKey an `ask_` secret, or null for production."
    })
  for (const name of durations)
    if (isGiven(options[name]) && !isDuration(options[name]))
      return invalidInput(name, `must be a number above 0 and at most ${longestTimer}`)
  const { lock, onEvent, onRequest, org, sessionStore, version } = options
  if (isGiven(version) && !isVersion(version)) return invalidInput("version", "must have the form 1.2.3")
  if (isGiven(org) && (typeof org !== "string" || org === ""))
    return invalidInput("org", "must be the handle of an organisation")
  if (isGiven(sessionStore) && !hasMethods(sessionStore, "load", "save", "clear"))
    return invalidInput("sessionStore", "must have load, save and clear")
  if (isGiven(lock) && !hasMethods(lock, "acquire")) return invalidInput("lock", "must have acquire")
  if (isGiven(onEvent) && typeof onEvent !== "function") return invalidInput("onEvent", "must be a function")
  if (isGiven(onRequest) && typeof onRequest !== "function")
    return invalidInput("onRequest", "must be a function")
  return undefined
}
