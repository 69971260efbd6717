/**
 * Headers of every answer, also of refusals that no handler gave (docs/api.md, "Conventions"). An answer is data for a program:
 * a browser must neither render nor frame it, nor guess its type, nor give it to a page of another origin. The web client reads answers
 * through CORS, which `Cross-Origin-Resource-Policy` does not concern. `Strict-Transport-Security` is left to the proxy that ends TLS.
 */
export const securityHeaders = {
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY"
} as const
