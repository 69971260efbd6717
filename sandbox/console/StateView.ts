/** The whole system as the page shows it, read from the simulators. */
import { tingTypes, repositoryName } from "../SimulatedUpstreams.ts"
import type { Sandbox } from "../Run.ts"
import { clientTables } from "../../src/schema/Telemetry.ts"
import { cut, cutJson } from "./BoundedText.ts"
import type { InjectedFaults } from "./InjectedFaults.ts"
import { actorsOf, planesOf } from "./Planes.ts"
import type { InboxTing, Slt, State, TableRow, TrackerIssue } from "./Protocol.ts"
import type { Sessions } from "./Sessions.ts"
import { webhookEvents } from "./WebhookTypes.ts"

/** Length of every list. */
const newest = 100
const longestIssue = 16_384

const newestBy = <A>(items: ReadonlyArray<A>, timeOf: (item: A) => number): ReadonlyArray<A> =>
  items.toSorted((one, other) => timeOf(other) - timeOf(one)).slice(0, newest)

const slts = ({ world }: Sandbox): ReadonlyArray<Slt> =>
  newestBy(
    planesOf(world).flatMap(({ id }) =>
      [...world.iam.controls.plane(id).slts.values()]
        .filter(({ spent }) => !spent)
        .slice(-newest)
        .map(({ expiresAt, session, token }) => ({ plane: id, actor: session.actor, token, expiresAt }))
    ),
    ({ expiresAt }) => expiresAt
  )

const inbox = ({ world }: Sandbox): ReadonlyArray<InboxTing> =>
  newestBy(
    planesOf(world).flatMap(({ id }) => {
      const { actors, organizations } = world.iam.controls.plane(id)
      return [...organizations.keys()].flatMap((org) =>
        [...actors.keys()].flatMap((recipient) =>
          world.ting
            .inbox(id, org, recipient)
            .slice(0, newest)
            .map((ting) => ({
              id: ting.id,
              plane: id,
              recipient,
              org,
              type: ting.type,
              key: ting.key,
              data: cutJson(ting.data),
              createdAt: Date.parse(ting.created_at)
            }))
        )
      )
    }),
    ({ createdAt }) => createdAt
  )

const issues = ({ world }: Sandbox): ReadonlyArray<TrackerIssue> =>
  world.tracker
    .issues(repositoryName)
    .slice(-newest)
    .reverse()
    .map(({ body, createdAt, number, state, title }) => ({
      number,
      title,
      body: cut(body ?? "", longestIssue),
      state,
      createdAt
    }))

const rows = ({ world }: Sandbox): ReadonlyArray<TableRow> =>
  newestBy(
    [...world.tableKeys.keys()].flatMap((table) =>
      world.tables
        .rows(table)
        .slice(-newest)
        .reverse()
        .map((row) => ({
          table,
          cursor: row.cursor,
          recordId: row.record_id,
          registeredAt: row.registered_ts_ms,
          metadata: cutJson(row.metadata),
          record: cutJson(row.record)
        }))
    ),
    ({ registeredAt }) => registeredAt
  )

export const viewState = (
  sandbox: Sandbox,
  parts: { readonly sessions: Sessions; readonly faults: InjectedFaults }
): State => {
  const { base, clock, world } = sandbox
  const { faults, sessions } = parts
  return {
    now: clock.now(),
    clockOffset: clock.offset(),
    addresses: {
      backend: base,
      iam: world.iam.url,
      ting: world.ting.url,
      tables: world.tables.url,
      tracker: world.tracker.url
    },
    planes: planesOf(world),
    actors: actorsOf(world),
    slts: slts(sandbox),
    sessions: sessions.list(),
    inbox: inbox(sandbox),
    issues: issues(sandbox),
    rows: rows(sandbox),
    faults: faults.list(),
    routes: faults.routeNames,
    tables: clientTables,
    tingTypes,
    webhookEvents
  }
}
