/** A checker for Stryker that lets the mutants of the sample pass and excludes what else lies inside their ranges. */
import { readFileSync } from "node:fs"
import { relative } from "node:path"

class Sample {
  places = new Set()
  async init() {
    this.places = new Set(JSON.parse(readFileSync("sample.json", "utf8")))
  }
  // As `placeOf` in Sample.ts.
  async check(mutants) {
    const isChosen = ({ fileName, location: { start, end }, mutatorName, replacement }) => {
      const numbers = [start.line, start.column, end.line, end.column]
      const place = [relative(process.cwd(), fileName), ...numbers, mutatorName, replacement]
      return this.places.has(JSON.stringify(place))
    }
    return Object.fromEntries(
      mutants.map((mutant) => [
        mutant.id,
        isChosen(mutant) ? { status: "passed" } : { status: "compileError", reason: "not in the sample" }
      ])
    )
  }
  async group(mutants) {
    return [mutants.map(({ id }) => id)]
  }
}

export const strykerPlugins = [{ kind: "Checker", name: "sample", factory: () => new Sample() }]
