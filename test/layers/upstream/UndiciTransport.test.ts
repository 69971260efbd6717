import type * as Undici from "@effect/platform-node/Undici"
import { describe, expect, it } from "vitest"
import { makeSend } from "../../../src/layers/upstream/UndiciTransport.ts"
import type { Delivery } from "../../../src/layers/upstream/UpstreamTransport.ts"

/** A request in a pool that does what the test asks for. */
const begin = () => {
  const deliveries: Array<Delivery> = []
  const aborts: Array<Error> = []
  let handler: Undici.Dispatcher.DispatchHandler = {}
  let deadlines = 0
  const none = { pause: () => {}, resume: () => {} }
  const controller: Undici.Dispatcher.DispatchController = {
    ...{ aborted: false, paused: false, reason: null, ...none },
    abort: (reason) => void aborts.push(reason)
  }
  const dispatch = (_: unknown, given: Undici.Dispatcher.DispatchHandler) => {
    handler = given
    return true
  }
  const add = () => {
    deadlines += 1
    return () => {
      deadlines -= 1
    }
  }
  const request = { origin: "http://iam.example", path: "/", method: "GET", headers: {} } as const
  const cancel = makeSend({ dispatch }, { add })(
    { ...request, body: undefined, maxResponseBytes: 10, deadlineAt: 0 },
    (delivery) => {
      deliveries.push(delivery)
    }
  )
  return {
    deliveries,
    aborts,
    cancel,
    deadlines: () => deadlines,
    start: () => handler.onRequestStart?.(controller, undefined),
    respond: (status: number) => handler.onResponseStart?.(controller, status, {}),
    fail: (code: string) => handler.onResponseError?.(controller, Object.assign(new Error(), { code }))
  }
}

const lost = (code: string, withinResponse: boolean) => ({ _tag: "Lost", code, withinResponse })

describe("A request of the connection pool", () => {
  it("was not sent without a connection, and may have arrived when the same error comes later", () => {
    const requests = [begin(), begin(), begin()] as const
    const [unconnected, connected, answering] = requests
    unconnected.fail("EHOSTUNREACH")
    connected.start()
    connected.fail("EHOSTUNREACH")
    answering.start()
    answering.respond(200)
    answering.fail("ECONNRESET")
    expect(requests.flatMap(({ deliveries }) => deliveries)).toEqual([
      { _tag: "NotSent", code: "EHOSTUNREACH" },
      lost("EHOSTUNREACH", false),
      lost("ECONNRESET", true)
    ])
  })

  it("is ended by its caller, also before it has a connection, and settles no more", () => {
    const waiting = begin()
    waiting.cancel()
    expect(waiting.aborts.length).toBe(0)
    waiting.start()
    expect(waiting.aborts.length).toBe(1)
    waiting.fail("UND_ERR_ABORTED")
    const running = begin()
    running.start()
    running.cancel()
    running.fail("UND_ERR_ABORTED")
    expect(running.aborts.length).toBe(1)
    expect([...waiting.deliveries, ...running.deliveries]).toEqual([])
    expect([waiting.deadlines(), running.deadlines()]).toEqual([0, 0])
  })
})
