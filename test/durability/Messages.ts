/** Messages between an instance and its parent, beside HTTP. */

/** From the parent: call a method of the store, or end and keep the compiled code. */
export type Asked =
  | { readonly call: string; readonly id: number; readonly parameters: ReadonlyArray<unknown> }
  | { readonly keepCompiled: true }

/** From an instance. */
export interface Told {
  /** Its address, once it listens. */
  readonly ready?: string
  /** A name under which it takes leases. */
  readonly owner?: string
  /** This many items were delivered now. */
  readonly delivered?: number
  /** The answer to a call. */
  readonly id?: number
  readonly result?: unknown
  readonly error?: string
}
