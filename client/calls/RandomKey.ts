/**
 * Makes a key for a report, to be kept before the report is sent: a random UUID (version 4). `crypto.randomUUID` is missing on pages
 * without a secure context. This file imports nothing, so a page that needs only a key loads nothing else.
 */
export const newIdempotencyKey = (): string =>
  "10000000-1000-4000-8000-100000000000".replace(/[018]/g, (digit) => {
    const [random = 0] = crypto.getRandomValues(new Uint8Array(1))
    // The digit 8 keeps its first two bits, as the variant of a UUID demands.
    return (Number(digit) ^ (random & (15 >> (Number(digit) / 4)))).toString(16)
  })
