import type { IncomingHttpHeaders } from "node:http"
import type { Source } from "../../services/RequestContext.ts"

const sources: ReadonlyArray<Source> = ["cli", "daemon", "web"]

/** `X-Music-Source`; a name that we do not know is no reason to refuse. */
export const sourceOf = (headers: IncomingHttpHeaders): Source =>
  sources.find((source) => source === headers["x-music-source"]) ?? "unknown"

/** Whether the caller lets us record: anything but a plain yes is a no. */
export const allowsRecording = (headers: IncomingHttpHeaders): boolean => {
  const preference = headers["x-music-telemetry"]
  return (
    (preference === undefined || preference === "on") && !saysYes(headers["sec-gpc"]) && !saysYes(headers.dnt)
  )
}

// A repeated header arrives joined with a comma; one yes in it is a yes.
const saysYes = (value: string | ReadonlyArray<string> | undefined): boolean =>
  value !== undefined &&
  String(value)
    .split(",")
    .some((part) => part.trim() === "1")
