/**
 * Headers of every answer, also of refusals that no handler gave (docs/api.md, "Conventions"). An answer is data for a program:
 * a browser must neither render nor frame it, nor guess its type. CORS says which pages read it. `Cross-Origin-Resource-Policy` allows a page of
 * any origin to learn that the service answers: so `music-client` distinguishes an origin that is not allowed from a lost connection.
 * `Strict-Transport-Security` is left to the proxy that ends TLS.
 */
export const securityHeaders = {
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "cross-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY"
} as const
