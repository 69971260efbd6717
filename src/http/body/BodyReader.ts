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
    const chunks: Array<Buffer> = []
    let size = 0
    const onData = (chunk: Buffer) => {
      size += chunk.length
      if (size <= bound) chunks.push(chunk)
      else settle(Effect.fail(tooLarge(bound)))
    }
    const onEnd = () =>
      settle(Effect.succeed(chunks.length === 1 ? (chunks[0] ?? empty) : Buffer.concat(chunks)))
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

const empty = new Uint8Array()
