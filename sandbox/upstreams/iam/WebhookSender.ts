/** One webhook attempt over HTTP: no redirects, bounded in time and in what it reads (identity-service.md 11.6). */
import { request as requestHttp } from "node:http"
import { request as requestHttps } from "node:https"
import type { SignedWebhook } from "./WebhookSignature.ts"

/** The status that came back, or why none did. */
export type PostResult = { readonly status: number } | { readonly error: string }

export interface PostLimits {
  readonly connectMilliseconds: number
  readonly totalMilliseconds: number
  readonly responseBytes: number
}

export const defaultLimits: PostLimits = {
  connectMilliseconds: 2000,
  totalMilliseconds: 10_000,
  responseBytes: 64 * 1024
}

/** Plain http is allowed, as on IAM's own runtimes outside production. */
export const post = (webhook: SignedWebhook, limits: PostLimits): Promise<PostResult> =>
  new Promise((resolve) => {
    const send = webhook.url.startsWith("https:") ? requestHttps : requestHttp
    const outgoing = send(webhook.url, {
      method: "POST",
      headers: { ...webhook.headers, "Content-Length": String(webhook.body.length) },
      agent: false
    })
    const giveUp = (reason: string) => () => outgoing.destroy(new Error(reason))
    const connecting = setTimeout(giveUp("connect timeout"), limits.connectMilliseconds)
    const total = setTimeout(giveUp("timeout"), limits.totalMilliseconds)
    const settle = (result: PostResult) => {
      clearTimeout(connecting)
      clearTimeout(total)
      resolve(result)
    }
    outgoing.on("socket", (socket) => socket.once("connect", () => clearTimeout(connecting)))
    outgoing.on("error", (error) => settle({ error: error.message }))
    outgoing.on("response", (response) => {
      let size = 0
      response.on("data", (chunk: Buffer) => {
        size += chunk.length
        if (size <= limits.responseBytes) return
        // Settled before destroying: an end that is already buffered would pass for success.
        settle({ error: "response too large" })
        outgoing.destroy()
      })
      response.on("end", () => settle({ status: response.statusCode ?? 0 }))
      response.on("error", (error) => settle({ error: error.message }))
    })
    outgoing.end(webhook.body)
  })
