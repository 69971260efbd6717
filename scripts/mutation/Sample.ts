/** The seeded sample of the mutants of a folder. */
import { createHash } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { Instrumenter } from "@stryker-mutator/instrumenter"

/** Lines and columns count from 0. */
export interface Place {
  readonly line: number
  readonly column: number
}

export interface Mutant {
  readonly file: string
  readonly start: Place
  readonly end: Place
  readonly mutator: string
  readonly original: string
  readonly replacement: string
}

const textAt = (source: string, start: Place, end: Place): string => {
  const lines = source.split("\n").slice(start.line, end.line + 1)
  lines.push((lines.pop() ?? "").slice(0, end.column))
  return [(lines[0] ?? "").slice(start.column), ...lines.slice(1)].join("\n")
}

/** The source with the mutant in it. */
export const withMutant = (source: string, { end, replacement, start }: Mutant): string => {
  const lines = source.split("\n")
  const before = [...lines.slice(0, start.line), lines[start.line]?.slice(0, start.column)]
  const after = [lines[end.line]?.slice(end.column), ...lines.slice(end.line + 1)]
  return before.join("\n") + replacement + after.join("\n")
}

/** Names a mutant for the checker. */
export const placeOf = ({ end, file, mutator, replacement, start }: Mutant): string =>
  JSON.stringify([file, start.line, start.column, end.line, end.column, mutator, replacement])

type Logger = ConstructorParameters<typeof Instrumenter>[0]

/** Writes nothing: no level is enabled. */
const logger = new Proxy({} as Logger, { get: () => () => false })

/** Every mutant of a folder of the source. */
const mutantsOf = async (root: string, folder: string): Promise<ReadonlyArray<Mutant>> => {
  const sources = new Map(
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts") && !name.endsWith(".d.ts"))
      .sort()
      .map((name): [string, string] => [`${folder}/${name}`, readFileSync(join(root, folder, name), "utf8")])
  )
  const { mutants } = await new Instrumenter(logger).instrument(
    [...sources].map(([name, content]) => ({ name, content, mutate: true })),
    { plugins: null, excludedMutations: [], ignorers: [] }
  )
  return mutants.map(({ fileName, location: { end, start }, mutatorName, replacement }) => ({
    file: fileName,
    start,
    end,
    mutator: mutatorName,
    original: textAt(sources.get(fileName) ?? "", start, end),
    replacement
  }))
}

/**
 * The first mutants by a digest of seed, file, original text, replacement, and the how-manieth of its kind it is. So the order is the same
 * for the same source, other lines of a file hardly change it, and a smaller sample is the beginning of a larger one.
 */
export const sampleOf = async (
  root: string,
  folder: string,
  seed: string,
  count: number
): Promise<ReadonlyArray<Mutant>> => {
  const seen = new Map<string, number>()
  return [...(await mutantsOf(root, folder))]
    .sort((one, other) => one.start.line - other.start.line || one.start.column - other.start.column)
    .map((mutant) => {
      const { file, mutator, original, replacement } = mutant
      const name = JSON.stringify([file, mutator, original, replacement])
      const nth = seen.get(name) ?? 0
      seen.set(name, nth + 1)
      return { mutant, digest: createHash("sha256").update(`${seed} ${nth} ${name}`).digest("hex") }
    })
    .sort((one, other) => (one.digest < other.digest ? -1 : 1))
    .slice(0, count)
    .map(({ mutant }) => mutant)
}
