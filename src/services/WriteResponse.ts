import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import type { HttpServerRequest } from "@effect/platform/HttpServerRequest"
import type { HttpServerResponse } from "@effect/platform/HttpServerResponse"

/** Hands Node the response. The library would wait until it is sent: for ever, where the connection ends before. */
export const writeResponse = (
  request: HttpServerRequest,
  response: HttpServerResponse
): HttpServerResponse => {
  const { body, headers, status } = response
  if (body._tag !== "Stream" || request.method === "HEAD")
    NodeHttpServerRequest.toServerResponse(request)
      .writeHead(status, headers)
      .end(body._tag === "Uint8Array" ? body.body : undefined)
  return response
}
