import type { IncomingHttpHeaders } from "node:http"
import { clientVersionMaxLength, clientVersionPattern } from "../../schema/Patterns.ts"
import type { Source } from "../../services/RequestContext.ts"

const sources: ReadonlyArray<Source> = ["cli", "daemon", "web"]

/** `X-Music-Source`; an unknown name is `unknown`, never a refusal. */
export const readSource = (headers: IncomingHttpHeaders): Source =>
  sources.find((source) => source === headers["x-music-source"]) ?? "unknown"

/** `X-Music-Client-Version`; anything that is no version counts as absent, never as a refusal. */
export const readClientVersion = (headers: IncomingHttpHeaders): string | undefined => {
  const version = headers["x-music-client-version"]
  // Node joins a repeated header with a comma and a space, which the pattern does not match.
  return typeof version === "string" &&
    version.length <= clientVersionMaxLength &&
    clientVersionPattern.test(version)
    ? version
    : undefined
}

/** Whether the caller allows recording. Any unknown value counts as an opt-out. */
export const allowsRecording = (headers: IncomingHttpHeaders): boolean => {
  const preference = headers["x-music-telemetry"]
  return (
    (preference === undefined || preference === "on") &&
    !isOptOut(headers["sec-gpc"]) &&
    !isOptOut(headers.dnt)
  )
}

// Node joins a repeated header with commas; a single `1` among the values is an opt-out.
const isOptOut = (value: string | ReadonlyArray<string> | undefined): boolean =>
  value !== undefined &&
  String(value)
    .split(",")
    .some((part) => part.trim() === "1")
