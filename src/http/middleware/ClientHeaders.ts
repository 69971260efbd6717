import type { IncomingHttpHeaders } from "node:http"
import type { Source } from "../../services/RequestContext.ts"

const sources: ReadonlyArray<Source> = ["cli", "daemon", "web"]

/** `X-Music-Source`; an unknown name is `unknown`, never a refusal. */
export const readSource = (headers: IncomingHttpHeaders): Source =>
  sources.find((source) => source === headers["x-music-source"]) ?? "unknown"

/** Whether the caller allows recording: anything but a plain yes is a no. */
export const allowsRecording = (headers: IncomingHttpHeaders): boolean => {
  const preference = headers["x-music-telemetry"]
  return (
    (preference === undefined || preference === "on") && !saysYes(headers["sec-gpc"]) && !saysYes(headers.dnt)
  )
}

// Node joins a repeated header with commas; one yes among them is a yes.
const saysYes = (value: string | ReadonlyArray<string> | undefined): boolean =>
  value !== undefined &&
  String(value)
    .split(",")
    .some((part) => part.trim() === "1")
