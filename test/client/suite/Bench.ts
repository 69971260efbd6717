/** The environment of the core suite. Arguments and results of its commands are plain data, so that a page can send them. */
import type * as Client from "../../../client/index.ts"
import type * as Telemetry from "../../../client/telemetry.ts"
import type { Commands } from "../support/TestBench.ts"

/** `after`: the server has acted, only its answer is lost or replaced. */
export type FaultKind =
  | "cut-before"
  | "cut-after"
  | "cut-within"
  | "hang-after"
  | "delay"
  | "html-502"
  | "html-502-after"
  | "html-401"
  | "html-200-after"
  | "empty-200-after"
  | "redirect"

export interface FaultRule {
  readonly lane: string
  /** Beginning of the path. */
  readonly path: string
  readonly kind: FaultKind
  /** Default 1. */
  readonly times?: number
  readonly milliseconds?: number
}

export interface Bench {
  /** Address of the proxy. */
  readonly base: string
  /** Every fault with every call, or a sample. */
  readonly thorough: boolean
  /** Sessions are kept in the store of a page. */
  readonly page: boolean
  readonly command: <Name extends keyof Commands>(
    name: Name,
    ...parameters: Parameters<Commands[Name]>
  ) => Promise<ReturnType<Commands[Name]>>
}

/** The module under test: the source, or a bundle of it. */
export type Kit = typeof Client & typeof Telemetry

export interface Scenario {
  readonly name: string
  readonly run: (bench: Bench, kit: Kit) => Promise<void>
}
