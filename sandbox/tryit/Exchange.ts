/** One request to the service, and what came back. */
import { curlCommand, quote } from "../../src/http/docs/Curl.ts"
import { failure, type Outcome, success } from "./Outcome.ts"

export interface Request {
  readonly method: string
  readonly path: string
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
  /** Sent byte for byte. */
  readonly body: string | undefined
}

export interface Answer {
  readonly status: number
  readonly statusText: string
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
  /** Empty when there is none. */
  readonly text: string
  readonly milliseconds: number
}

/** Longer than the service's own deadline, so that a slow call ends with the service's reason. */
const patienceMillis = 60_000

export const send = async ({ method, path, headers, body }: Request): Promise<Outcome<Answer>> => {
  const startedAt = performance.now()
  try {
    const response = await fetch(path, {
      method,
      headers: headers.map(([name, value]): [string, string] => [name, value]),
      signal: AbortSignal.timeout(patienceMillis),
      cache: "no-store",
      ...(body === undefined ? {} : { body })
    })
    const text = await response.text()
    const milliseconds = Math.round(performance.now() - startedAt)
    return success({
      status: response.status,
      statusText: response.statusText,
      headers: [...response.headers],
      text,
      milliseconds
    })
  } catch (error) {
    return error instanceof DOMException && error.name === "TimeoutError"
      ? failure(
          `No answer within ${patienceMillis / 1000} s.`,
          "The call may have taken effect. Send it again with the same key: nothing happens twice."
        )
      : failure(
          "No answer: the connection failed.",
          "See that npm run sandbox is still running. The call may have taken effect; send it again with the same key: nothing happens twice."
        )
  }
}

/** The request as a command for a shell. */
export const curlOf = ({ method, path, headers, body }: Request): string =>
  curlCommand({
    method,
    url: quote(`${location.origin}${path}`),
    headers: headers.map(([name, value]) => quote(`${name}: ${value}`)),
    body: body === undefined ? undefined : quote(body)
  })

/** Why a browser would not send a header; undefined when it would. */
export const headerProblem = (name: string, value: string): string | undefined => {
  try {
    new Headers([[name, value]])
    return undefined
  } catch {
    return "A header cannot hold this character."
  }
}
