/** What is wrong with the options, said by every call instead of thrown at the start, before anything is touched. */
import { InvalidInput, TestingSecretInvalid } from "../src/schema/Failure.ts"
import { testingSecretPattern } from "../src/schema/Identity.ts"
import type { MusicClientOptions } from "./Options.ts"

export type OptionsProblem = InvalidInput | TestingSecretInvalid

const isAddress = (baseUrl: unknown): boolean =>
  typeof baseUrl === "string" && URL.canParse(baseUrl) && /^https?:$/.test(new URL(baseUrl).protocol)

/** Programs without the type checker may hand over anything. */
export const problemOf = (options: MusicClientOptions): OptionsProblem | undefined => {
  if (!isAddress(options.baseUrl))
    return new InvalidInput({
      hint: "Give the address of the service as baseUrl.",
      details: { fields: [{ path: "baseUrl", problem: "must be an http or https URL" }] }
    })
  const { testingKey } = options
  // Named but empty or malformed is a mistake in the set-up of a test, which must not end in production.
  return "testingKey" in options && testingKey !== null && !testingSecretPattern.test(testingKey ?? "")
    ? new TestingSecretInvalid({ hint: "Give testingKey an `ask_` secret, or null for production." })
    : undefined
}
