import type { IncomingMessage } from "node:http"
import * as Effect from "effect/Effect"
import type { Failure } from "../../schema/Failure.ts"
import { tooLarge } from "./BodyHeaders.ts"

/** Registers a body while it arrives: is given a way to end the wait with a failure, returns how to deregister. */
export type Register = (cut: (failure: Failure) => void) => () => void

/**
 * Reads the exact bytes of a body. Over the bound, or cut, it stops collecting and fails without destroying the stream,
 * because the answer must still reach the client. Interrupts when the client goes away.
 */
export const readBytes = (
  message: IncomingMessage,
  bound: number,
  register: Register
): Effect.Effect<Uint8Array, Failure> =>
  Effect.async((resume) => {
    let bytes = empty
    let size = 0
    const onData = (chunk: Buffer) => {
      const before = size
      size += chunk.length
      if (size > bound) settle(Effect.fail(tooLarge(bound)))
      else if (before === 0) bytes = chunk
      else bytes = append(bytes, before, chunk, bound)
    }
    const onEnd = () => settle(Effect.succeed(bytes.subarray(0, size)))
    const onGone = () => settle(Effect.interrupt)
    const release = () => {
      deregister()
      message.off("data", onData).off("end", onEnd).off("close", onGone).off("error", onGone)
      message.pause()
    }
    const settle = (outcome: Effect.Effect<Uint8Array, Failure>) => {
      release()
      resume(outcome)
    }
    if (message.destroyed && !message.readableEnded) return resume(Effect.interrupt)
    const deregister = register((failure) => settle(Effect.fail(failure)))
    message.on("data", onData).on("end", onEnd).on("close", onGone).on("error", onGone)
    return Effect.sync(release)
  })

const empty: Uint8Array = new Uint8Array()

/**
 * Appends to the first `size` bytes, in a buffer that doubles when it is full. A list of the chunks would hold a hundred times the memory
 * of a body that arrives in chunks of one byte.
 */
const append = (bytes: Uint8Array, size: number, chunk: Uint8Array, bound: number): Uint8Array => {
  const needed = size + chunk.length
  // The first chunk is the connection's, and is never written to.
  const target = needed <= bytes.length ? bytes : new Uint8Array(Math.min(bound, 2 * needed))
  if (target !== bytes) target.set(bytes.subarray(0, size))
  target.set(chunk, size)
  return target
}
