/** The laws of docs/durability.md in the database and at the upstreams: what was acknowledged is stored, and delivered once. */
import { repositoryName } from "../../sandbox/SimulatedUpstreams.ts"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { requests } from "../world/Driver.ts"
import type { Simulators } from "../world/Fleet.ts"
import { type TestDatabase, text } from "./Databases.ts"
import type { Insist } from "./Instances.ts"
import { type Ledger, table } from "./Load.ts"

export interface Verdict {
  readonly broken: ReadonlyArray<string>
  readonly figures: Readonly<Record<string, number>>
}

const open = "SELECT * FROM deliveries WHERE state NOT IN ('delivered', 'failed')"

/** No report and no client's event waits; with `sweeps`, no search for duplicates either. */
export const isQuiet = async (database: TestDatabase, { sweeps = false } = {}): Promise<boolean> => {
  const waiting = await database.rows(
    sweeps ? open : `${open} AND (kind <> 'sweep' OR lease_until IS NOT NULL)`
  )
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
  readonly refusable?: number
  /** A list that lags behind lets one report be filed twice; then one issue is open and the others are closed. */
  readonly repairable?: boolean
}): Promise<Verdict> => {
  const { database, insist, ledger, refusable = 0, repairable = false, world } = parts
  const broken: Array<string> = []
  let duplicates = 0
  const demand = (holds: boolean, law: string) => {
    if (!holds) broken.push(law)
  }
  /** Each of the keys once; with `isWhole`, nothing else. */
  const demandOnce = (
    what: string,
    found: ReadonlyArray<unknown>,
    keys: ReadonlySet<string>,
    isWhole = true
  ) => {
    const counts = new Map<string, number>()
    for (const key of found.map(text)) counts.set(key, (counts.get(key) ?? 0) + 1)
    for (const key of keys)
      demand(counts.get(key) === 1, `${what} ${key} appears ${counts.get(key) ?? 0} times`)
    if (isWhole) demand(counts.size === keys.size, `${counts.size} ${what}s kept, ${keys.size} acknowledged`)
    duplicates += found.length - counts.size
  }

  const issues = world.tracker.issues(repositoryName)
  const reports = await database.rows(
    "SELECT r.id, r.marker, r.issue_number, d.state, d.last_failure FROM reports r LEFT JOIN deliveries d ON d.subject = r.id AND d.kind = 'report'"
  )
  demandOnce(
    "report",
    reports.map(({ id }) => id),
    ledger.reports
  )
  const failed = reports.filter(({ state }) => state === "failed")
  demand(failed.length <= refusable, `${failed.length} reports failed`)
  for (const { id, issue_number, last_failure, marker, state } of reports) {
    const found = issues.filter(({ body }) => body?.includes(`report-ref: ${id}-${marker}`) === true)
    const opened = found.filter((issue) => issue.state === "open").length
    if (state === "failed") {
      demand(found.length === 0 && text(last_failure) !== "", `${id} failed, with ${found.length} issues`)
      continue
    }
    duplicates += Math.max(0, opened - 1)
    const isNamed = found.some(({ number }) => number === Number(issue_number))
    demand(
      state === "delivered" && opened === 1 && isNamed && (repairable || found.length === 1),
      `${id} is ${state}, was filed ${found.length} times, has ${opened} open issues and names ${issue_number}`
    )
  }

  demandOnce(
    "event",
    world.tables.rows(table).map(({ record_id }) => record_id),
    ledger.events
  )
  for (const row of await database.rows("SELECT * FROM spool_counts")) {
    const ends = ["delivered", "duplicates", "expired", "refused", "waiting"] as const
    const sum = ends.reduce((total, end) => total + Number(row[end]), 0)
    demand(Number(row.accepted) === sum, `the sums of ${row.table_name} are off: ${JSON.stringify(row)}`)
    // The backend continues to add events of its own.
    if (row.table_name !== table) continue
    const waiting = await database.rows(`SELECT 1 FROM spool WHERE table_name = '${table}'`)
    demand(waiting.length === Number(row.waiting), "records wait otherwise than counted")
  }

  const inbox = await database.rows("SELECT event_id FROM webhook_inbox")
  demandOnce(
    "webhook",
    inbox.map((row) => row.event_id),
    ledger.webhooks
  )
  demandOnce(
    "ting",
    world.ting.accepted(production).map(({ key }) => key),
    ledger.tings,
    false
  )

  const recipients = await database.rows("SELECT public_id FROM recipients WHERE active = 1")
  const active = new Set(recipients.map((row) => text(row.public_id)))
  for (const actor of ledger.removed)
    demand(!active.has(actor), `${actor} was removed and is still registered`)
  const families = [...world.iam.controls.plane(production).families.values()]
  for (const { actor, token } of ledger.sessions) {
    demand(active.has(actor) || ledger.removed.has(actor), `${actor} logged in and is not registered`)
    const { status } = await insist(requests.me(token), 200, 401, 403)
    demand(status === 200, `the session of ${actor} is lost: ${status}`)
    const count = families.filter((family) => family.actor === actor).length
    demand(count === 1, `${actor} has ${count} sessions`)
  }
  const { acknowledged, events, reports: filed, sent, sessions, tings, webhooks } = ledger
  const sizes = { reports: filed.size, events: events.size, webhooks: webhooks.size, tings: tings.size }
  return { broken, figures: { ...sizes, sessions: sessions.length, sent, acknowledged, duplicates } }
}
