/** Tables and their keys (table-service.md 1 and 5): look-ups by the key's digest, retiring, rotation, a cache of look-ups. */
import { createHash, randomBytes } from "node:crypto"
import type { Now } from "../Simulator.ts"

/** One stored record. `cursor` rises per table; times in milliseconds. */
export interface Row {
  readonly cursor: number
  readonly record_id: string
  readonly event_ts_ms: number
  readonly registered_ts_ms: number
  readonly metadata: unknown
  readonly record: unknown
}

export interface Table {
  readonly name: string
  keyDigest: string
  retired: boolean
  readonly rows: Array<Row>
}

const nameGrammar = /^[a-z0-9]{1,50}$/
const keyGrammar = /^table-([a-z0-9]{1,50})-([0-9a-f]{32})$/

/** How long a look-up, hit or miss, is remembered when the cache is on. */
const cacheMilliseconds = 60_000

const digest = (key: string): string => createHash("sha256").update(key).digest("hex")

export class Registry {
  private readonly tables = new Map<string, Table>()
  private readonly minted: Array<string>
  private readonly now: Now
  private readonly cache = new Map<string, { readonly table: Table | undefined; readonly until: number }>()
  private caching = false

  constructor(now: Now, minted: Array<string>) {
    this.now = now
    this.minted = minted
  }

  /** Makes a table and its key. A given key must be one for that name; without, a random one is made. */
  create(name: string, given?: string): string {
    if (!nameGrammar.test(name)) throw new Error("a table name is 1 to 50 of [a-z0-9]")
    if (this.tables.has(name)) throw new Error(`table ${name} exists`)
    const key = given ?? this.newKey(name)
    if (keyGrammar.exec(key)?.[1] !== name) throw new Error(`the key is not one for table ${name}`)
    if (given !== undefined) this.minted.push(given)
    this.tables.set(name, { name, keyDigest: digest(key), retired: false, rows: [] })
    return key
  }

  /** The table of a name. Throws when there is none. */
  get(name: string): Table {
    const table = this.tables.get(name)
    if (table === undefined) throw new Error(`no table ${name}`)
    return table
  }

  find(name: string): Table | undefined {
    return this.tables.get(name)
  }

  names(): ReadonlyArray<string> {
    return [...this.tables.keys()]
  }

  /** Replaces the key; the old one is refused at once (table-service.md 5). */
  rotate(name: string): string {
    const table = this.get(name)
    const key = this.newKey(name)
    this.cache.delete(table.keyDigest)
    table.keyDigest = digest(key)
    return key
  }

  retire(name: string): void {
    const table = this.get(name)
    this.cache.delete(table.keyDigest)
    table.retired = true
  }

  /** The same key works again. */
  restore(name: string): void {
    this.get(name).retired = false
  }

  remove(name: string): void {
    this.cache.delete(this.get(name).keyDigest)
    this.tables.delete(name)
  }

  cacheLookUps(on: boolean): void {
    this.caching = on
    this.cache.clear()
  }

  /** The table that a key writes to; `undefined` for a wrong, rotated, retired or deleted one. */
  resolve(key: string): Table | undefined {
    const wanted = digest(key)
    const cached = this.cache.get(wanted)
    if (cached !== undefined && this.now() < cached.until) return cached.table
    const table = keyGrammar.test(key)
      ? [...this.tables.values()].find((candidate) => candidate.keyDigest === wanted && !candidate.retired)
      : undefined
    if (this.caching) this.cache.set(wanted, { table, until: this.now() + cacheMilliseconds })
    return table
  }

  private newKey(name: string): string {
    const key = `table-${name}-${randomBytes(16).toString("hex")}`
    this.minted.push(key)
    return key
  }
}
