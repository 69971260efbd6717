/** What the five suites of docs/proof.md have in common. */

export interface PlayOptions {
  readonly seed: number
  /** Requests, sequences, clients or attacks, as the suite counts them; each suite has a default for a full run. */
  readonly count: number | undefined
  readonly log: (line: string) => void
}

export interface Outcome {
  /** The cells of the run's row in docs/proof.md, by the names of its columns. */
  readonly figures: Readonly<Record<string, string | number>>
  /** What broke, each with what is needed to play it again; empty when everything held. */
  readonly broken: ReadonlyArray<string>
}

export type Play = (options: PlayOptions) => Promise<Outcome>
