/** Generated sequences in chunks of one seed each, so that workers share a run and each failure can be played alone. */
import * as FastCheck from "effect/FastCheck"
import { type Sequence, sequence } from "./Commands.ts"
import { type Figures, makeTemplate, playSequence } from "./Story.ts"

/** Sequences of one chunk. */
export const chunk = 50

export interface ChunkResult {
  readonly figures: Figures & { readonly sequences: number }
  readonly broken: ReadonlyArray<string>
}

const seedOf = (seed: number, index: number): number => (Math.imul(seed, 0x9e3779b1) + index) | 0

const add = (left: Figures, right: Figures): Figures => ({
  commands: left.commands + right.commands,
  upstreamCalls: left.upstreamCalls + right.upstreamCalls,
  faults: left.faults + right.faults,
  kills: left.kills + right.kills,
  requests: left.requests + right.requests,
  sessions: left.sessions + right.sessions,
  rotations: left.rotations + right.rotations
})

export const noFigures: Figures & { readonly sequences: number } = {
  sequences: 0,
  commands: 0,
  upstreamCalls: 0,
  faults: 0,
  kills: 0,
  requests: 0,
  sessions: 0,
  rotations: 0
}

export const addChunks = (left: ChunkResult, right: ChunkResult): ChunkResult => ({
  figures: {
    ...add(left.figures, right.figures),
    sequences: left.figures.sequences + right.figures.sequences
  },
  broken: [...left.broken, ...right.broken]
})

const report = (seed: number, path: string, found: Sequence, broken: string, story: ReadonlyArray<string>) =>
  [
    broken,
    ...story.map((line) => `  ${line}`),
    `  seed ${seed}, path ${path}; play it alone: node --import tsx test/proof/model/replay.ts '${JSON.stringify(found)}'`
  ].join("\n")

/** The platform's digest runs in a thread of its own, which the simulated time does not wait for. */
const withDigestInThisThread = async <A>(use: () => Promise<A>): Promise<A> => {
  const { createHash } = await import("node:crypto")
  const { subtle } = globalThis.crypto
  Object.defineProperty(subtle, "digest", {
    configurable: true,
    value: (_: string, bytes: Uint8Array) => {
      const digest = createHash("sha256").update(bytes).digest()
      return Promise.resolve(new Uint8Array(digest).buffer)
    }
  })
  try {
    return await use()
  } finally {
    Reflect.deleteProperty(subtle, "digest")
  }
}

/** Plays sequences with a database folder of their own. */
export const withStage = async <A>(use: (folder: string) => Promise<A>): Promise<A> => {
  const { folder, remove } = await makeTemplate()
  try {
    return await withDigestInThisThread(() => use(folder))
  } finally {
    remove()
  }
}

/** Plays one chunk, and shrinks its first failure. */
export const playChunk = async (
  folder: string,
  options: { readonly seed: number; readonly index: number; readonly count: number }
): Promise<ChunkResult> => {
  const seed = seedOf(options.seed, options.index)
  let figures: Figures = noFigures
  let sequences = 0
  let failed = false
  const details = await FastCheck.check(
    FastCheck.asyncProperty(sequence, async (generated) => {
      const played = await playSequence(generated, folder)
      if (!failed) {
        figures = add(figures, played.figures)
        sequences += 1
      }
      failed ||= played.broken.length > 0
      return played.broken.length === 0
    }),
    { seed, numRuns: options.count }
  )
  const result = { ...figures, sequences }
  const [found] = details.counterexample ?? []
  if (!details.failed || found === undefined) return { figures: result, broken: [] }
  const { broken, story } = await playSequence(found, folder)
  return {
    figures: result,
    broken: [report(seed, details.counterexamplePath ?? "", found, broken.join("; ") || "not broken the second time", story)]
  }
}
