import { afterEach, describe, expect, it } from "vitest"
import { terminalScreen } from "../../src/cli/Terminal.ts"

const streams = [process.stdout, process.stderr]
const were = streams.map((stream) => Object.getOwnPropertyDescriptor(stream, "isTTY"))

const beTerminals = (terminals: boolean) => {
  for (const stream of streams)
    Object.defineProperty(stream, "isTTY", { value: terminals, configurable: true })
}

afterEach(() => {
  for (const [at, stream] of streams.entries()) {
    const before = were[at]
    if (before === undefined) Reflect.deleteProperty(stream, "isTTY")
    else Object.defineProperty(stream, "isTTY", before)
  }
})

describe("The screen of a command", () => {
  it("has colours on a terminal without NO_COLOR, and progress on a terminal only", () => {
    const look = (environment: Readonly<Record<string, string>>) => {
      const { colours, watched } = terminalScreen(environment)
      return [colours, watched]
    }
    beTerminals(true)
    expect(look({})).toEqual([true, true])
    expect(look({ NO_COLOR: "" })).toEqual([true, true])
    expect(look({ NO_COLOR: "1" })).toEqual([false, true])
    expect(look({ TERM: "dumb" })).toEqual([false, false])
    beTerminals(false)
    expect(look({})).toEqual([false, false])
  })
})
