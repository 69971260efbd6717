/** Sends calls to other systems over HTTP, with the client that Node's platform layer carries. */
import { Dispatcher } from "@effect/platform-node/NodeHttpClient"
import * as Undici from "@effect/platform-node/Undici"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Deadlines } from "../../services/Deadlines.ts"
import { errorCode } from "../../services/ErrorCode.ts"
import { ConnectionPool, isConnectError } from "./Connection.ts"
import { type Delivery, type Send, UpstreamTransport } from "./UpstreamTransport.ts"

/** Repeated headers become one, as HTTP defines. */
const joinValues = (
  headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
): Readonly<Record<string, string>> => {
  const joined: Record<string, string> = {}
  for (const name in headers) {
    const value = headers[name]
    if (value !== undefined) joined[name] = typeof value === "string" ? value : value.join(", ")
  }
  return joined
}

/** One request of `pool`, read and bounded as it arrives. */
export const makeSend =
  (pool: Pick<Undici.Dispatcher, "dispatch">, deadlines: Pick<Deadlines, "add">): Send =>
  ({ body, deadlineAt, headers, maxResponseBytes, method, origin, path }, settle) => {
    let settled = false
    let controller: Undici.Dispatcher.DispatchController | undefined
    let head: Pick<Extract<Delivery, { _tag: "Answered" }>, "status" | "headers"> | undefined
    const chunks: Array<Buffer> = []
    let size = 0

    const release = deadlines.add(deadlineAt, () => giveUp({ _tag: "Late" }))
    const abort = () => controller?.abort(new Undici.errors.RequestAbortedError())
    const finish = (delivery: Delivery): void => {
      if (settled) return
      settled = true
      release()
      settle(delivery)
    }
    const giveUp = (delivery: Delivery): void => {
      finish(delivery)
      abort()
    }

    pool.dispatch(
      {
        origin,
        path,
        method,
        headers: { ...headers },
        body: body ?? null,
        // The deadline bounds both.
        headersTimeout: 0,
        bodyTimeout: 0
      },
      {
        onRequestStart: (started) => {
          controller = started
          if (settled) abort()
        },
        onResponseStart: (_, status, fields) => {
          // An informational response precedes the final one.
          if (status < 200) return
          head = { status, headers: joinValues(fields) }
          if (Number(head.headers["content-length"] ?? 0) > maxResponseBytes) giveUp({ _tag: "TooLarge" })
        },
        onResponseData: (_, chunk) => {
          if (settled) return
          size += chunk.length
          if (size > maxResponseBytes) giveUp({ _tag: "TooLarge" })
          else chunks.push(chunk)
        },
        onResponseEnd: () => {
          const [first] = chunks
          if (head !== undefined)
            finish({
              _tag: "Answered",
              ...head,
              body: first !== undefined && chunks.length === 1 ? first : Buffer.concat(chunks)
            })
        },
        onResponseError: (_, error) => {
          const code = errorCode(error)
          // A connection that was made can fail with the same codes later, after the request was sent.
          finish(
            controller === undefined && isConnectError(error)
              ? { _tag: "NotSent", code }
              : { _tag: "Lost", code, withinResponse: head !== undefined }
          )
        }
      }
    )
    return () => {
      if (settled) return
      settled = true
      release()
      abort()
    }
  }

/** One connection pool for every upstream. */
export const UndiciTransport: Layer.Layer<UpstreamTransport> = Layer.effect(
  UpstreamTransport,
  Effect.zipWith(Dispatcher, Deadlines, (pool, deadlines) => ({ send: makeSend(pool, deadlines) }))
).pipe(Layer.provide([ConnectionPool, Deadlines.Default]))
