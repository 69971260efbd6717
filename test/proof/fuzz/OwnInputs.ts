/** Inputs that need what only this suite has: the contract's bounds of bodies, signed deliveries, and a trusted proxy. */
import { accepted, type Input, type Message, open, refused } from "../../world/Inputs.ts"
import { operations } from "../../world/Contract.ts"

const boundOf = (id: string): number =>
  operations.find((operation) => operation.id === id)?.body?.maxBytes ?? 0

/** One byte below the bound of a body, at it and above it, with a declared length and in chunks. */
export const bodySizes: ReadonlyArray<Input> = [-1, 0, 1].flatMap((more) =>
  [false, true].map((chunked) => ({
    name: `body of ${more} bytes more than its bound${chunked ? ", in chunks" : ""}`,
    parts: ["text", "framing", "line"],
    outcome: more <= 0 ? accepted : refused(chunked ? "size" : "declared length", 413, "payload_too_large"),
    change: (message: Message, { call }) =>
      message.body === undefined || call?.body === undefined
        ? undefined
        : {
            ...message,
            body: Buffer.concat([
              message.body,
              Buffer.alloc(Math.max(0, boundOf(call.id) + more - message.body.length), " ")
            ]),
            framing: chunked ? { kind: "chunked", extension: "", trailer: "" } : message.framing,
            last: true
          }
  }))
)

/** After the signature, which does not fit any more. */
const changedDelivery: Input = {
  name: "body changed after its signature",
  parts: ["text", "framing"],
  outcome: refused("bearer", 401, "webhook_signature_invalid"),
  change: (message, { call, place }) => {
    if (call?.id !== "webhooks.receive" || message.body === undefined) return undefined
    const body = Buffer.from(message.body)
    const at = Math.floor(place * body.length)
    body[at] = (body[at] ?? 0) ^ 1
    return { ...message, body }
  }
}

/** A request as the body of a call that reads none. The next answer on the connection is that to the next request. */
export const unreadBody: Input = {
  name: "a request as a body that is not read",
  parts: ["text", "framing"],
  outcome: accepted,
  change: (message, { call }) =>
    call === undefined || call.body !== undefined
      ? undefined
      : { ...message, body: Buffer.from("GET /api/v1/version HTTP/1.1\r\nHost: a\r\n\r\n") }
}

const forwarded = "X-Forwarded-For"

/** Many requests share it, so limits answer, too. */
export const sharedAddress: Input = {
  name: `${forwarded} of many requests`,
  parts: [forwarded],
  outcome: open("limits"),
  change: (message) => ({
    ...message,
    headers: message.headers.map(([name, value]) => [name, name === forwarded ? "192.0.2.1" : value])
  })
}

export const ownInputs: ReadonlyArray<Input> = [...bodySizes, changedDelivery, unreadBody, sharedAddress]
