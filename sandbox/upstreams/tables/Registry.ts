/** Tables and their keys (table-service.md 1 and 5): lookup by the key's digest, retiring and rotation. */
import { createHash, randomBytes } from "node:crypto"

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

const nameFormat = /^[a-z0-9]{1,50}$/
const keyFormat = /^table-([a-z0-9]{1,50})-([0-9a-f]{32})$/

const digest = (key: string): string => createHash("sha256").update(key).digest("hex")

export class Registry {
  private readonly tables = new Map<string, Table>()
  private readonly minted: Array<string>

  constructor(minted: Array<string>) {
    this.minted = minted
  }

  /** Makes a table. Without a given key, a random one is made; a given key must carry the table's name. */
  create(name: string, given?: string): string {
    if (!nameFormat.test(name)) throw new Error("a table name is 1 to 50 of [a-z0-9]")
    if (this.tables.has(name)) throw new Error(`table ${name} exists`)
    const key = given ?? this.newKey(name)
    if (keyFormat.exec(key)?.[1] !== name) throw new Error(`the key is not one for table ${name}`)
    if (given !== undefined) this.minted.push(given)
    this.tables.set(name, { name, keyDigest: digest(key), retired: false, rows: [] })
    return key
  }

  /** A table by name. Throws when it does not exist. */
  get(name: string): Table {
    const table = this.tables.get(name)
    if (table === undefined) throw new Error(`no table ${name}`)
    return table
  }

  find(name: string): Table | undefined {
    return this.tables.get(name)
  }

  /** Replaces the key; the old one is refused at once (table-service.md 5). */
  rotate(name: string): string {
    const table = this.get(name)
    const key = this.newKey(name)
    table.keyDigest = digest(key)
    return key
  }

  retire(name: string): void {
    this.get(name).retired = true
  }

  /** The same key works again. */
  restore(name: string): void {
    this.get(name).retired = false
  }

  /** The table that a key writes to; `undefined` for a wrong, rotated or retired one. */
  resolve(key: string): Table | undefined {
    const wanted = digest(key)
    return keyFormat.test(key)
      ? [...this.tables.values()].find((candidate) => candidate.keyDigest === wanted && !candidate.retired)
      : undefined
  }

  private newKey(name: string): string {
    const key = `table-${name}-${randomBytes(16).toString("hex")}`
    this.minted.push(key)
    return key
  }
}
