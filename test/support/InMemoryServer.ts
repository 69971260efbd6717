/**
 * The way of a request without sockets: order of checks, limits and envelope are the real ones, and a request costs no connection.
 * For simulations with very many requests, under any clock.
 */
import type { RequestListener } from "node:http"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { inject } from "light-my-request"
import { makePipeline } from "../../src/http/middleware/Pipeline.ts"
import { type Bounds, requestLimits } from "../../src/http/Server.ts"

export interface InMemoryRequest {
  /** Default: POST with a body, else GET. */
  readonly method?: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Buffer
}

export interface InMemoryResponse {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

/** Node's `complete` says that the whole request has arrived, which the library's requests do not say. */
const completing =
  (listener: RequestListener): RequestListener =>
  (message, response) => {
    Object.defineProperty(message, "complete", { get: () => message.readableEnded })
    listener(message, response)
  }

class Listener extends Context.Tag("test/Listener")<Listener, RequestListener>() {}

export class InMemoryServer extends Context.Tag("test/InMemoryServer")<
  InMemoryServer,
  /** Sends a request as a client with this address. */
  { readonly send: (address: string, request: InMemoryRequest) => Promise<InMemoryResponse> }
>() {}

/** Needs what the HTTP server needs: use cases, settings and `Drain`. */
export const inMemoryServer = (bounds: Bounds = {}) =>
  Layer.effect(
    InMemoryServer,
    Effect.map(Listener, (listener) => ({
      send: async (address: string, { body, headers, method, path }: InMemoryRequest) => {
        const answer = await inject(completing(listener), {
          // The library's names of methods; any text is sent.
          method: (method ?? (body === undefined ? "GET" : "POST")) as "GET",
          url: path,
          remoteAddress: address,
          headers: { host: "127.0.0.1", ...headers },
          ...(body === undefined ? {} : { payload: body })
        })
        const responseHeaders = Object.entries(answer.headers).map(([name, value]) => [name, String(value)])
        return {
          status: answer.statusCode,
          headers: Object.fromEntries(responseHeaders),
          text: answer.payload
        }
      }
    }))
  ).pipe(Layer.provide(Layer.scoped(Listener, makePipeline)), Layer.provide(requestLimits(bounds)))
