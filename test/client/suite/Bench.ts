/** The commands of the core suite to its environment. Arguments and results are plain data, so that a page can send them. */
import type * as Client from "../../../client/index.ts"

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

/** Name, arguments and result of every command. */
export interface Commands {
  /** A short-lived token. */
  readonly slt: (actor?: string) => string
  readonly testingKey: () => string
  readonly fault: (rule: FaultRule) => void
  readonly clear: (lane: string) => void
  /** How many requests of a lane and path arrived at the proxy. */
  readonly attempts: (lane: string, path: string) => number
  /** One header of every such request. */
  readonly headers: (lane: string, path: string, name: string) => ReadonlyArray<string | null>
  /** Moves the clock of the server and the identity service. */
  readonly advance: (milliseconds: number) => void
  /** State of the family that a token belongs to, and how many of its refresh tokens were spent. */
  readonly family: (token: string) => { readonly status: string; readonly rotations: number }
  readonly revoke: (token: string) => void
  /** Tings accepted under a key. */
  readonly tings: (key: string) => number
  /** How many rows of a table have this record id. */
  readonly rows: (table: string, id: string) => number
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
export type Kit = typeof Client

export interface Scenario {
  readonly name: string
  readonly run: (bench: Bench, kit: Kit) => Promise<void>
}
