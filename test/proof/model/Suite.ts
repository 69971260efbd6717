/** Generated sequences in chunks of one seed each, so that workers share a run and each failure can be played alone. */
import * as FastCheck from "effect/FastCheck"
import { type Sequence, sequence } from "./Commands.ts"
import { type Figures, makeTemplate, playSequence } from "./Story.ts"

/** Sequences of one chunk. */
const chunkSize = 50

export interface Chunk {
  readonly seed: number
  readonly index: number
  readonly count: number
}

export const chunksOf = (seed: number, count: number): ReadonlyArray<Chunk> =>
  Array.from({ length: Math.ceil(count / chunkSize) }, (_, index) => ({
    seed,
    index,
    count: Math.min(chunkSize, count - index * chunkSize)
  }))

export type Totals = Figures & { readonly sequences: number }

export interface ChunkResult {
  readonly figures: Totals
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

export const noFigures: Totals = {
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

/** Leaves out every command that is not needed for the failure. FastCheck's own shrinking is faster, and leaves some. */
const dropNeedless = async (folder: string, found: Sequence): Promise<Sequence> => {
  let least = found
  for (let index = found.commands.length - 1; index >= 0; index--) {
    const shorter = { ...least, commands: least.commands.filter((_, other) => other !== index) }
    if ((await playSequence(shorter, folder)).broken.length > 0) least = shorter
  }
  for (const who of found.begin) {
    const fewer = { ...least, begin: least.begin.filter((other) => other !== who) }
    if ((await playSequence(fewer, folder)).broken.length > 0) least = fewer
  }
  return least
}

/** Plays one chunk, and shrinks its first failure. */
export const playChunk = async (folder: string, chunk: Chunk): Promise<ChunkResult> => {
  const seed = seedOf(chunk.seed, chunk.index)
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
    { seed, numRuns: chunk.count }
  )
  const result = { ...figures, sequences }
  const [found] = details.counterexample ?? []
  if (!details.failed || found === undefined) return { figures: result, broken: [] }
  const least = await dropNeedless(folder, found)
  const { broken, story } = await playSequence(least, folder)
  return {
    figures: result,
    broken: [
      report(
        seed,
        details.counterexamplePath ?? "",
        least,
        broken.join("; ") || "not broken the second time",
        story
      )
    ]
  }
}
