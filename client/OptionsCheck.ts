/** Checks the options. A problem fails every call before anything is sent or stored; construction never throws. */
import { InvalidInput, TestingSecretInvalid } from "../src/schema/Failure.ts"
import { testingSecretPattern } from "../src/schema/Identity.ts"
import type { MusicClientOptions } from "./Options.ts"

export type OptionsProblem = InvalidInput | TestingSecretInvalid

const isAddress = (baseUrl: unknown): boolean =>
  typeof baseUrl === "string" && URL.canParse(baseUrl) && /^https?:$/.test(new URL(baseUrl).protocol)

/** Returns the first problem. Programs without a type checker may pass any value. */
export const findOptionsProblem = (options: MusicClientOptions): OptionsProblem | undefined => {
  if (!isAddress(options.baseUrl))
    return new InvalidInput({
      hint: "Give the address of the service as baseUrl.",
      details: { fields: [{ path: "baseUrl", problem: "must be an http or https URL" }] }
    })
  const { testingKey } = options
  // An empty or malformed key is a mistake in a test's configuration; it must never select production.
  return "testingKey" in options && testingKey !== null && !testingSecretPattern.test(testingKey ?? "")
    ? new TestingSecretInvalid({ hint: "Give testingKey an `ask_` secret, or null for production." })
    : undefined
}
