import type { UpstreamResponse } from "../upstream/UpstreamResponse.ts"

/** The end of the token that a request carried, in milliseconds since the epoch; GitHub sends it for a token that expires. */
export const tokenExpiry = ({ headers }: Pick<UpstreamResponse, "headers">): number | undefined => {
  // `2026-12-21 07:27:00 UTC`, or with an offset.
  const text = headers["github-authentication-token-expiration"] ?? ""
  const end = Date.parse(text.replace(" UTC", "Z").replace(" ", "T").replace(" ", ""))
  return Number.isNaN(end) ? undefined : end
}
