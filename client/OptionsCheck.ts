/** Checks the options. A problem fails every call before anything is sent or stored; construction never throws. */
import { clientVersionMaxLength, clientVersionPattern, testingSecretPattern } from "../src/schema/Patterns.ts"
import { invalidInput, type OptionsProblem, serviceFailure } from "./failures/Failures.ts"
import { longestTimer } from "./calls/Time.ts"
import type { MusicClientOptions } from "./Options.ts"
import type { ErrorOf } from "./Types.ts"
import { isGiven, isText } from "./Values.ts"

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

/** Options that may be left out: whether a value is one, and what it must be. Programs without a type checker may pass any value. */
export type Checks = Readonly<
  Record<string, readonly [isRight: (value: unknown) => boolean, problem: string]>
>

/** The problem of the first option that is given and wrong. */
export const findWrong = (given: object, checks: Checks): ErrorOf<"invalid_input"> | undefined => {
  for (const [name, [isRight, problem]] of Object.entries(checks)) {
    const value: unknown = Reflect.get(given, name)
    if (isGiven(value) && !isRight(value)) return invalidInput(name, problem)
  }
  return undefined
}

export const isFunction = (value: unknown): value is () => unknown => typeof value === "function"

const withMethods =
  (...methods: ReadonlyArray<string>) =>
  (value: unknown): boolean =>
    typeof value === "object" && methods.every((name) => isFunction(Reflect.get(Object(value), name)))

/** The check of a time. */
export const duration: Checks[string] = [
  (value) => typeof value === "number" && value > 0 && value <= longestTimer,
  `must be a number above 0 and at most ${longestTimer}`
]

const callback: Checks[string] = [isFunction, "must be a function"]

const checks: Checks = {
  deadlineMilliseconds: duration,
  attemptMilliseconds: duration,
  version: [
    (value) => isText(value) && value.length <= clientVersionMaxLength && clientVersionPattern.test(value),
    "must have the form 1.2.3"
  ],
  org: [(value) => isText(value) && value !== "", "must be the handle of an organisation"],
  sessionStore: [withMethods("load", "save", "clear"), "must have load, save and clear"],
  lock: [withMethods("acquire"), "must have acquire"],
  onEvent: callback,
  onRequest: callback
}

/** Returns the first problem. */
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
  return findWrong(options, checks)
}
