/** Reads the state of a running Node process through its inspector, so that the measured program needs no code of its own for it. */
import * as Undici from "@effect/platform-node/Undici"

export interface ProcessState {
  /** Bytes of the heap after a collection. */
  readonly heap: number
  /** Live fibers; 0 where the program has none. */
  readonly fibers: number
  readonly timers: number
  /** Everything that keeps the process running, timers included. */
  readonly resources: number
  /** Listeners of the process itself. */
  readonly listeners: number
}

export interface Inspector {
  readonly read: () => Promise<ProcessState>
  readonly close: () => void
}

const inProcess = `JSON.stringify({
  resources: process.getActiveResourcesInfo(),
  listeners: process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0)
})`

/** The prototype of a fiber: the library registers its root fibers under a global name. */
const fiberPrototype = `(() => {
  for (const value of globalThis["effect/GlobalValue"]?.values() ?? [])
    for (const fiber of value?.roots ?? []) return Object.getPrototypeOf(fiber)
})()`

const member = (value: unknown, ...names: ReadonlyArray<string>): unknown =>
  names.reduce<unknown>((found, name) => Reflect.get(Object(found), name), value)

/** `port`: of `--inspect`. */
export const inspect = async (port: number): Promise<Inspector> => {
  const listed: unknown = await (await fetch(`http://127.0.0.1:${port}/json/list`)).json()
  const socket = new Undici.WebSocket(String(member(listed, "0", "webSocketDebuggerUrl")))
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener("open", () => resolve())
    socket.addEventListener("error", () => reject(new Error("the inspector refused the connection")))
  })
  let last = 0
  const waiting = new Map<number, (result: unknown) => void>()
  socket.addEventListener("message", ({ data }) => {
    const message: unknown = JSON.parse(String(data))
    const id = Number(member(message, "id"))
    waiting.get(id)?.(member(message, "result"))
    waiting.delete(id)
  })
  const call = (method: string, params: Readonly<Record<string, unknown>> = {}) =>
    new Promise<unknown>((resolve) => {
      last += 1
      waiting.set(last, resolve)
      socket.send(JSON.stringify({ id: last, method, params }))
    })

  const countFibers = async (): Promise<number> => {
    const objectGroup = "fibers"
    const prototype = member(
      await call("Runtime.evaluate", { expression: fiberPrototype, objectGroup }),
      "result",
      "objectId"
    )
    if (typeof prototype !== "string") return 0
    const objects = member(
      await call("Runtime.queryObjects", { prototypeObjectId: prototype, objectGroup }),
      "objects",
      "objectId"
    )
    const count = await call("Runtime.callFunctionOn", {
      objectId: objects,
      functionDeclaration: "function () { return this.length }",
      returnByValue: true
    })
    // Otherwise the inspector would keep every fiber that it has shown.
    await call("Runtime.releaseObjectGroup", { objectGroup })
    return Number(member(count, "result", "value"))
  }

  const read = async (): Promise<ProcessState> => {
    const fibers = await countFibers()
    await call("HeapProfiler.collectGarbage")
    const heap = Number(member(await call("Runtime.getHeapUsage"), "usedSize"))
    const text = member(
      await call("Runtime.evaluate", { expression: inProcess, returnByValue: true }),
      "result",
      "value"
    )
    const { listeners, resources } = JSON.parse(String(text)) as {
      readonly resources: ReadonlyArray<string>
      readonly listeners: number
    }
    return {
      heap,
      fibers,
      listeners,
      resources: resources.length,
      timers: resources.filter((name) => name === "Timeout").length
    }
  }
  return { read, close: () => socket.close() }
}
