/** The part of the driver that the tests use; the package has no types. */
declare module "better-sqlite3" {
  export interface Prepared {
    /** It returns rows. */
    readonly reader: boolean
    readonly all: (...values: ReadonlyArray<unknown>) => Array<Record<string, unknown>>
    readonly run: (...values: ReadonlyArray<unknown>) => unknown
  }
  export default class Database {
    constructor(path: string)
    readonly inTransaction: boolean
    prepare(text: string): Prepared
    pragma(text: string): unknown
    close(): void
  }
}
