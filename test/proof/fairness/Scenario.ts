import type { Group, Row } from "./Ledger.ts"
import type { Latency } from "./Upstreams.ts"
import type { World } from "./World.ts"
import type { SettingsOverrides } from "../../support/Settings.ts"

/** How large a scenario is played. */
export interface Size {
  /** Clients of its largest kind. */
  readonly count: number
  /** The full run lasts longer. */
  readonly isFull: boolean
}

/**
 * Where a bound comes from: a promise of a document, or what was measured with a margin. A promised bound is chosen before the
 * measurement.
 */
type Source = "promised" | "measured"

/** What a bound is about, from the row of a kind and group. Parts are from 0 to 1, waits in seconds. */
export type RowMeasure = Exclude<keyof Row, "kind" | "group" | "codes">

export type Bound =
  | {
      readonly of: string
      readonly group: Group
      readonly measure: RowMeasure
      readonly least?: number
      readonly most?: number
      readonly source: Source
      /** In a full run the value follows from the number of clients. */
      readonly onlyInSlice?: true
    }
  /** Calls to one path of IAM in any minute that these kinds cause together. */
  | { readonly callsOf: ReadonlyArray<string>; readonly most: number; readonly source: Source }
  /** A number that the scenario itself measures. */
  | { readonly fact: string; readonly least?: number; readonly most?: number; readonly source: Source }

export interface Scenario {
  readonly name: string
  readonly settings?: SettingsOverrides
  readonly latency?: Latency
  /** Kinds of honest clients: none of them may lose a session. */
  readonly honest: ReadonlyArray<string>
  /** IAM refuses calls here, because another instance makes them too. */
  readonly iamRefuses?: boolean
  /** Starts the clients; returns when to measure from and until, in milliseconds from the start, and what else is measured. */
  readonly play: (world: World, size: Size) => Played | Promise<Played>
  readonly bounds: ReadonlyArray<Bound>
}

export interface Played {
  readonly from: number
  readonly until: number
  readonly facts?: () => Readonly<Record<string, number>>
}
