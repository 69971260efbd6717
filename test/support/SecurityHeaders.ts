/** Headers of every answer (docs/api.md, "Conventions"), written apart from the service. The page of the documentation has a policy of its own. */
export const securityHeadersOfEveryAnswer: ReadonlyMap<string, string> = new Map([
  ["content-security-policy", "default-src 'none'; frame-ancestors 'none'"],
  ["cross-origin-resource-policy", "cross-origin"],
  ["referrer-policy", "no-referrer"],
  ["x-content-type-options", "nosniff"],
  ["x-frame-options", "DENY"]
])
