/** Sends one webhook request: no redirects, 10 s in total (identity-service.md 11.6). */
import type { SignedWebhook } from "./WebhookSignature.ts"

/** The status of the response, or why there was none. */
export type SendResult = { readonly status: number } | { readonly error: string }

const timeoutMilliseconds = 10_000

export const sendWebhook = async ({ url, headers, body }: SignedWebhook): Promise<SendResult> => {
  try {
    const signal = AbortSignal.timeout(timeoutMilliseconds)
    const response = await fetch(url, { method: "POST", headers, body, redirect: "manual", signal })
    await response.arrayBuffer()
    return { status: response.status }
  } catch (error) {
    return { error: String(error) }
  }
}
