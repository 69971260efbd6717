/** Checks the promises of docs/durability.md in the database and at the upstreams. */
import { production } from "../../sandbox/upstreams/Iam.ts"
import type { Client } from "./Client.ts"
import { type Row, type TestDatabase, text, toNumber } from "./Databases.ts"
import { type Ledger, table } from "./Load.ts"
import { repository, type Simulators } from "./Simulators.ts"

export interface Figures {
  readonly reports: number
  readonly failedReports: number
  readonly issues: number
  readonly events: number
  readonly rows: number
  readonly webhooks: number
  readonly tings: number
  readonly sessions: number
  /** Open issues, rows, inbox rows and tings beyond one each. */
  readonly duplicates: number
  /** Rows that the service recognised as duplicates; none of them is in a table twice. */
  readonly recognised: number
}

export interface Verdict {
  readonly broken: ReadonlyArray<string>
  readonly figures: Figures
}

const counted = (keys: ReadonlyArray<string>): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1)
  return counts
}

const beyondOne = (counts: ReadonlyMap<string, number>): number =>
  [...counts.values()].reduce((sum, count) => sum + Math.max(0, count - 1), 0)

/** No report and no client's event waits; with `sweeps`, no search for duplicates either. */
export const isQuiet = async (database: TestDatabase, { sweeps = false } = {}): Promise<boolean> => {
  const [open] = await database.rows(
    `SELECT COUNT(*) AS count FROM deliveries
     WHERE state NOT IN ('delivered', 'failed') ${sweeps ? "" : "AND (kind <> 'sweep' OR state = 'leased')"}`
  )
  const [waiting] = await database.rows(`SELECT COUNT(*) AS count FROM spool WHERE table_name = '${table}'`)
  return toNumber(open?.count) === 0 && toNumber(waiting?.count) === 0
}

export const whatWaits = async (database: TestDatabase): Promise<string> =>
  JSON.stringify([
    ...(await database.rows("SELECT * FROM deliveries WHERE state NOT IN ('delivered', 'failed')")),
    ...(await database.rows(
      "SELECT sequence, table_name, accepted_at, lease_owner, lease_until FROM spool ORDER BY sequence LIMIT 10"
    )),
    ...(await database.rows("SELECT * FROM destinations"))
  ])

export const judge = async (parts: {
  readonly world: Simulators
  readonly database: TestDatabase
  readonly client: Client
  readonly ledger: Ledger
  /** The maximum number of reports that the tracker was set to refuse permanently. */
  readonly refusable: number
  /** A list that lags behind lets one report be filed twice; then one issue is open and the others are closed. */
  readonly repairable: boolean
}): Promise<Verdict> => {
  const { client, database, ledger, world } = parts
  const broken: Array<string> = []
  const demand = (holds: boolean, law: string) => {
    if (!holds) broken.push(law)
  }

  const issues = world.tracker.issues(repository)
  const marked = (id: string, marker: string) =>
    issues.filter(({ body }) => body?.includes(`report-ref: ${id}-${marker}`) === true)
  const reports = new Map(
    (
      await database.rows(
        "SELECT r.id, r.marker, r.issue_number, d.state, d.last_failure FROM reports r LEFT JOIN deliveries d ON d.subject = r.id AND d.kind = 'report'"
      )
    ).map((row): [string, Row] => [text(row.id), row])
  )
  demand(
    reports.size === ledger.reports.size,
    `${reports.size} reports stored, ${ledger.reports.size} acknowledged`
  )
  let failedReports = 0
  let spareIssues = 0
  for (const id of ledger.reports) {
    const row = reports.get(id)
    const found = marked(id, text(row?.marker))
    const open = found.filter(({ state }) => state === "open")
    if (row?.state === "failed") {
      failedReports += 1
      demand(found.length === 0 && text(row.last_failure) !== "", `${id} failed, with ${found.length} issues`)
      continue
    }
    spareIssues += Math.max(0, open.length - 1)
    demand(row?.state === "delivered", `${id} is ${String(row?.state)}`)
    demand(open.length === 1, `${id} has ${open.length} open issues`)
    demand(parts.repairable || found.length === 1, `${id} was filed ${found.length} times`)
    demand(
      found.some(({ number }) => number === toNumber(row?.issue_number)),
      `${id} does not name its issue`
    )
  }
  demand(failedReports <= parts.refusable, `${failedReports} reports failed`)

  const rows = counted(world.tables.rows(table).map(({ record_id }) => record_id))
  for (const id of ledger.events) demand(rows.get(id) === 1, `event ${id} appears ${rows.get(id) ?? 0} times`)
  demand(
    rows.size === ledger.events.size,
    `${rows.size} events delivered, ${ledger.events.size} acknowledged`
  )
  const counts = await database.rows("SELECT * FROM spool_counts")
  for (const row of counts) {
    const ends = ["delivered", "duplicates", "expired", "refused", "waiting"] as const
    const sum = ends.reduce((total, end) => total + toNumber(row[end]), 0)
    demand(
      toNumber(row.accepted) === sum,
      `the sums of ${text(row.table_name)} are off: ${JSON.stringify(row)}`
    )
    const waiting = await database.rows(
      `SELECT COUNT(*) AS count FROM spool WHERE table_name = '${text(row.table_name)}'`
    )
    // The backend continues to add events of its own.
    if (text(row.table_name) === table)
      demand(
        toNumber(waiting[0]?.count) === toNumber(row.waiting),
        `${text(row.table_name)} waits otherwise than counted`
      )
  }

  const inbox = counted(
    (await database.rows("SELECT event_id FROM webhook_inbox")).map((row) => text(row.event_id))
  )
  for (const id of ledger.webhooks)
    demand(inbox.get(id) === 1, `webhook ${id} appears ${inbox.get(id) ?? 0} times`)
  demand(
    inbox.size === ledger.webhooks.size,
    `${inbox.size} webhooks kept, ${ledger.webhooks.size} acknowledged`
  )
  const active = new Set(
    (await database.rows("SELECT public_id FROM recipients WHERE active = 1")).map((row) =>
      text(row.public_id)
    )
  )
  for (const actor of ledger.removed)
    demand(!active.has(actor), `${actor} was removed and is still registered`)
  for (const { actor } of ledger.sessions)
    demand(active.has(actor) || ledger.removed.has(actor), `${actor} logged in and is not registered`)

  const tings = counted(world.ting.accepted(production).map(({ key }) => key))
  for (const key of ledger.tings)
    demand(tings.get(key) === 1, `ting ${key} was sent ${tings.get(key) ?? 0} times`)

  for (const session of ledger.sessions) {
    const me = await client.insist(
      {
        method: "GET",
        path: "/api/v1/auth/me",
        headers: { authorization: `Bearer ${session.token}`, "x-org-id": "acme" }
      },
      200,
      401,
      403
    )
    demand(me.status === 200, `the session of ${session.actor} is lost: ${me.status} ${me.body}`)
    const families = [...world.iam.controls.plane(production).families.values()].filter(
      ({ actor }) => actor === session.actor
    )
    const logins = ledger.sessions.filter(({ actor }) => actor === session.actor)
    demand(families.length === logins.length, `${session.actor} has ${families.length} sessions`)
  }

  return {
    broken,
    figures: {
      reports: ledger.reports.size,
      failedReports,
      issues: issues.length,
      events: ledger.events.size,
      rows: world.tables.rows(table).length,
      webhooks: ledger.webhooks.size,
      tings: ledger.tings.size,
      sessions: ledger.sessions.length,
      duplicates: spareIssues + beyondOne(rows) + beyondOne(inbox) + beyondOne(tings),
      recognised: world.tables.received().duplicates
    }
  }
}
