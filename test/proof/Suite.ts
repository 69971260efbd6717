/** What the suites of docs/proof.md have in common. */

interface PlayOptions {
  readonly seed: number
  /** Requests, sequences, clients or attacks, as the suite counts them; each suite has a default for a full run. */
  readonly count: number | undefined
  readonly log: (line: string) => void
}

export interface Outcome {
  readonly figures: Readonly<Record<string, number>>
  /** What broke, each with what is needed to play it again; empty when everything held. */
  readonly broken: ReadonlyArray<string>
}

export type Play = (options: PlayOptions) => Promise<Outcome>
