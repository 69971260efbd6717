/** Checks the promises of docs/durability.md in the database and at the upstreams. */
import { production } from "../../sandbox/upstreams/Iam.ts"
import type { Insist } from "./Client.ts"
import { type TestDatabase, text, toNumber } from "./Databases.ts"
import { bearer, type Ledger, table } from "./Load.ts"
import { repository, type Simulators } from "./Simulators.ts"

export interface Verdict {
  readonly broken: ReadonlyArray<string>
  readonly figures: Readonly<Record<string, number>>
}

const countsOf = (keys: ReadonlyArray<unknown>): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const key of keys.map(text)) counts.set(key, (counts.get(key) ?? 0) + 1)
  return counts
}

const beyondOne = (counts: ReadonlyMap<string, number>): number =>
  [...counts.values()].reduce((sum, count) => sum + Math.max(0, count - 1), 0)

const open = "SELECT * FROM deliveries WHERE state NOT IN ('delivered', 'failed')"

/** No report and no client's event waits; with `sweeps`, no search for duplicates either. */
export const isQuiet = async (database: TestDatabase, { sweeps = false } = {}): Promise<boolean> => {
  const waiting = await database.rows(sweeps ? open : `${open} AND (kind <> 'sweep' OR state = 'leased')`)
  const records = await database.rows(`SELECT 1 FROM spool WHERE table_name = '${table}' LIMIT 1`)
  return waiting.length + records.length === 0
}

export const whatWaits = async (database: TestDatabase): Promise<string> =>
  JSON.stringify([
    ...(await database.rows(open)),
    ...(await database.rows("SELECT table_name, lease_owner, lease_until FROM spool LIMIT 10")),
    ...(await database.rows("SELECT * FROM destinations"))
  ])

/** What was done, and what of it breaks a promise. */
export const judge = async (parts: {
  readonly world: Simulators
  readonly database: TestDatabase
  readonly insist: Insist
  readonly ledger: Ledger
  /** The maximum number of reports that the tracker was set to refuse permanently. */
  readonly refusable: number
  /** A list that lags behind lets one report be filed twice; then one issue is open and the others are closed. */
  readonly repairable: boolean
}): Promise<Verdict> => {
  const { database, insist, ledger, world } = parts
  const broken: Array<string> = []
  const demand = (holds: boolean, law: string) => {
    if (!holds) broken.push(law)
  }
  /** Each of the keys once; with `isWhole`, nothing else. */
  const demandOnce = (
    what: string,
    counts: ReadonlyMap<string, number>,
    keys: ReadonlySet<string>,
    isWhole = true
  ) => {
    for (const key of keys)
      demand(counts.get(key) === 1, `${what} ${key} appears ${counts.get(key) ?? 0} times`)
    if (isWhole) demand(counts.size === keys.size, `${counts.size} ${what}s kept, ${keys.size} acknowledged`)
    return beyondOne(counts)
  }

  const issues = world.tracker.issues(repository)
  const reports = await database.rows(
    "SELECT r.id, r.marker, r.issue_number, d.state, d.last_failure FROM reports r LEFT JOIN deliveries d ON d.subject = r.id AND d.kind = 'report'"
  )
  let duplicates = demandOnce("report", countsOf(reports.map(({ id }) => id)), ledger.reports)
  let failed = 0
  for (const { id, issue_number, last_failure, marker, state } of reports) {
    const found = issues.filter(({ body }) => body?.includes(`report-ref: ${id}-${marker}`) === true)
    const opened = found.filter((issue) => issue.state === "open").length
    if (state === "failed") {
      failed += 1
      demand(found.length === 0 && text(last_failure) !== "", `${id} failed, with ${found.length} issues`)
      continue
    }
    duplicates += Math.max(0, opened - 1)
    demand(state === "delivered", `${id} is ${String(state)}`)
    demand(opened === 1, `${id} has ${opened} open issues`)
    demand(parts.repairable || found.length === 1, `${id} was filed ${found.length} times`)
    demand(
      found.some(({ number }) => number === toNumber(issue_number)),
      `${id} does not name its issue`
    )
  }
  demand(failed <= parts.refusable, `${failed} reports failed`)

  const rows = world.tables.rows(table).map(({ record_id }) => record_id)
  duplicates += demandOnce("event", countsOf(rows), ledger.events)
  for (const row of await database.rows("SELECT * FROM spool_counts")) {
    const ends = ["delivered", "duplicates", "expired", "refused", "waiting"] as const
    const sum = ends.reduce((total, end) => total + toNumber(row[end]), 0)
    demand(toNumber(row.accepted) === sum, `the sums of ${row.table_name} are off: ${JSON.stringify(row)}`)
    // The backend continues to add events of its own.
    if (row.table_name !== table) continue
    const waiting = await database.rows(`SELECT 1 FROM spool WHERE table_name = '${table}'`)
    demand(waiting.length === toNumber(row.waiting), "records wait otherwise than counted")
  }

  const inbox = await database.rows("SELECT event_id FROM webhook_inbox")
  duplicates += demandOnce("webhook", countsOf(inbox.map((row) => row.event_id)), ledger.webhooks)
  const tings = world.ting.accepted(production).map(({ key }) => key)
  duplicates += demandOnce("ting", countsOf(tings), ledger.tings, false)

  const recipients = await database.rows("SELECT public_id FROM recipients WHERE active = 1")
  const active = new Set(recipients.map((row) => text(row.public_id)))
  for (const actor of ledger.removed)
    demand(!active.has(actor), `${actor} was removed and is still registered`)
  const families = [...world.iam.controls.plane(production).families.values()]
  for (const session of ledger.sessions) {
    const { actor } = session
    demand(active.has(actor) || ledger.removed.has(actor), `${actor} logged in and is not registered`)
    const me = { method: "GET", path: "/api/v1/auth/me", headers: bearer(session) }
    const { status } = await insist(me, 200, 401, 403)
    demand(status === 200, `the session of ${actor} is lost: ${status}`)
    const count = families.filter((family) => family.actor === actor).length
    demand(count === 1, `${actor} has ${count} sessions`)
  }
  return {
    broken,
    figures: {
      reports: ledger.reports.size,
      events: ledger.events.size,
      webhooks: ledger.webhooks.size,
      tings: ledger.tings.size,
      sessions: ledger.sessions.length,
      duplicates
    }
  }
}
