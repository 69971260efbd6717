/** An attack that brings its own servers and upstreams. */
export interface ApartAttack {
  readonly name: string
  readonly play: (seed: number, count: number) => Promise<ReadonlyArray<string>>
}
