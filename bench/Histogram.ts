/**
 * Where the operations of a call are: a supervisor sees every operation, and the inspector names the place of its continuation. An
 * operation of a library's function counts for the last place in `src` before it on the same fiber.
 */
import { Session } from "node:inspector"
import { findSourceMap } from "node:module"
import { relative } from "node:path"
import { fileURLToPath } from "node:url"
import * as Effect from "effect/Effect"
import * as Supervisor from "effect/Supervisor"
import * as RuntimeFlags from "effect/RuntimeFlags"
import * as RuntimeFlagsPatch from "effect/RuntimeFlagsPatch"
import { root } from "../test/world/Fleet.ts"

interface Operation {
  readonly fiber: unknown
  readonly kind: string
  /** The continuation, the body of a synchronous one, or the generator of `Effect.gen`. */
  readonly code: unknown
}

class Recorder extends Supervisor.AbstractSupervisor<void> {
  readonly operations: Array<Operation> = []
  readonly value = Effect.void
  isOn = false

  override onEffect<A, E>(fiber: unknown, effect: Effect.Effect<A, E, unknown>): void {
    if (!this.isOn) return
    // The fields of the runtime's own operations, which have no public type.
    const { _op, effect_instruction_i0, effect_instruction_i1 } = effect as unknown as Readonly<
      Record<string, unknown>
    >
    const code =
      _op === "Iterator"
        ? effect_instruction_i0
        : [effect_instruction_i1, effect_instruction_i0].find((part) => typeof part === "function")
    this.operations.push({ fiber, kind: String(_op), code })
  }
}

const locations: ReadonlyArray<string> = ["[[FunctionLocation]]", "[[GeneratorLocation]]"]

/** Gives the place of a function or of a generator, such as `src/services/Retry.ts:31`. */
const makeLocator = (): ((code: unknown) => string | undefined) => {
  const session = new Session()
  session.connect()
  const urls = new Map<string, string>()
  session.on("Debugger.scriptParsed", ({ params }) => urls.set(params.scriptId, params.url))
  session.post("Debugger.enable")

  /** In-process, the answer arrives before `post` returns. */
  const locate = (code: unknown) => {
    let place: { scriptId: string; lineNumber: number; columnNumber?: number } | undefined
    Reflect.set(globalThis, "locatedFunction", code)
    session.post("Runtime.evaluate", { expression: "globalThis.locatedFunction" }, (failed, { result }) => {
      if (failed !== null || result.objectId === undefined) return
      session.post(
        "Runtime.getProperties",
        { objectId: result.objectId, ownProperties: true },
        (error, properties) => {
          if (error !== null) return
          const found = properties.internalProperties?.find(({ name }) => locations.includes(name))
          place = found?.value?.value
        }
      )
      session.post("Runtime.releaseObject", { objectId: result.objectId })
    })
    return place
  }

  return (code) => {
    const place = code === undefined ? undefined : locate(code)
    const url = place === undefined ? undefined : urls.get(place.scriptId)
    if (place === undefined || url === undefined || !url.startsWith("file:")) return undefined
    const entry = findSourceMap(url)?.findEntry(place.lineNumber, place.columnNumber ?? 0)
    const line = entry !== undefined && "originalLine" in entry ? entry.originalLine : place.lineNumber
    return `${relative(root, fileURLToPath(url))}:${line + 1}`
  }
}

/** Runs the program so that `record` collects the operations of the work that it is given, and prints them by place. */
export const makeHistogram = () => {
  const recorder = new Recorder()
  const locate = makeLocator()

  const record = async (work: () => Promise<unknown>): Promise<void> => {
    recorder.operations.length = 0
    recorder.isOn = true
    await work()
    recorder.isOn = false
  }

  const counted = (nameOf: (operation: Operation) => string): ReadonlyArray<readonly [string, number]> => {
    const counts = new Map<string, number>()
    for (const operation of recorder.operations) {
      const name = nameOf(operation)
      counts.set(name, (counts.get(name) ?? 0) + 1)
    }
    return [...counts].sort(([, one], [, other]) => other - one)
  }

  const render = (rows: number): string => {
    const lastOwn = new Map<unknown, string>()
    const byPlace = counted(({ code, fiber }) => {
      const place = locate(code)
      if (place?.startsWith("src/") === true) lastOwn.set(fiber, place)
      return lastOwn.get(fiber) ?? "before any place in src"
    })
    const lines = (all: ReadonlyArray<readonly [string, number]>) =>
      all.slice(0, rows).map(([name, count]) => `${String(count).padStart(6)}  ${name}`)
    return [
      `${recorder.operations.length} operations`,
      "",
      ...lines(counted(({ kind }) => kind)),
      "",
      ...lines(byPlace)
    ].join("\n")
  }

  const supervise = <A, E, R>(program: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    program.pipe(
      Effect.supervised(recorder),
      Effect.withRuntimeFlagsPatch(RuntimeFlagsPatch.enable(RuntimeFlags.OpSupervision))
    )

  return { record, render, supervise }
}

export type Histogram = ReturnType<typeof makeHistogram>
