/** The whole system as the page shows it, read from the simulators. */
import { clientTables } from "../../src/schema/Telemetry.ts"
import type { Sandbox } from "../Run.ts"
import { planesOf, repositoryName, type SimulatedUpstreams, tingTypes } from "../SimulatedUpstreams.ts"
import type { AccessToken, Family } from "../upstreams/Iam.ts"
import { activeOrganizations } from "../upstreams/iam/Tokens.ts"
import { cut, cutJson } from "./BoundedText.ts"
import type { InjectedFaults } from "./InjectedFaults.ts"
import type { Actor, InboxTing, Session, Slt, State, TableRow, TrackerIssue } from "./Protocol.ts"
import { webhookEvents } from "./Webhooks.ts"

/** Length of a list. Each plane has its own, because the page shows one plane. */
const newest = 100
const longestIssue = 16_384

/** People and machines of all planes, with the organisations that they are in now. */
const actorsOf = (world: SimulatedUpstreams): ReadonlyArray<Actor> =>
  planesOf(world).flatMap(({ id }) => {
    const plane = world.iam.controls.plane(id)
    return [...plane.actors.keys()].map((publicId) => ({
      plane: id,
      publicId,
      organizations: activeOrganizations(plane, publicId)
    }))
  })

const slts = ({ hidden, world }: Sandbox): ReadonlyArray<Slt> =>
  planesOf(world)
    .flatMap(({ id }) =>
      [...world.iam.controls.plane(id).slts.values()]
        .filter(({ spent, token }) => !spent && !hidden.has(token))
        .slice(-newest)
        .map(({ expiresAt, session, token }) => ({ plane: id, actor: session.actor, token, expiresAt }))
    )
    .reverse()

const statusOf = (
  { expiresAt, family, revoked }: AccessToken,
  isRefreshable: boolean,
  now: number
): Session["status"] => {
  if (family.status === "compromised") return "compromised"
  if (family.status === "revoked" || revoked || !isRefreshable) return "ended"
  return now >= expiresAt ? "expired" : "active"
}

/** The sessions of all programs as IAM knows them, newest first. */
export const sessionsOf = ({ clock, hidden, world }: Sandbox): ReadonlyArray<Session> =>
  planesOf(world)
    .flatMap(({ id }) => {
      const now = clock.now()
      const plane = world.iam.controls.plane(id)
      const accessOf = new Map<Family, readonly [string, AccessToken]>()
      for (const entry of plane.accessTokens) accessOf.set(entry[1].family, entry)
      const refreshOf = new Map<Family, { current: string; spent: string | null }>()
      for (const [token, { consumed, family }] of plane.refreshTokens) {
        const known = refreshOf.get(family) ?? { current: token, spent: null }
        refreshOf.set(family, consumed ? { ...known, spent: token } : { ...known, current: token })
      }
      const families = [...plane.families.values()].filter((family) => !hidden.has(family.id))
      return families.slice(-newest).flatMap((family): ReadonlyArray<Session> => {
        const [accessToken = "", access] = accessOf.get(family) ?? []
        const refresh = refreshOf.get(family)
        if (access === undefined || refresh === undefined) return []
        return [
          {
            id: family.id,
            plane: id,
            actor: family.actor,
            // Those of the login that the actor is still in.
            organizations: activeOrganizations(plane, family.actor).filter((org) =>
              family.session.organizations.has(org)
            ),
            status: statusOf(access, now < family.expiresAt, now),
            accessToken,
            accessIssuedAt: access.issuedAt,
            accessExpiresAt: access.expiresAt,
            refreshToken: refresh.current,
            familyExpiresAt: family.expiresAt,
            spentRefreshToken: refresh.spent
          }
        ]
      })
    })
    .reverse()

const inbox = ({ world }: Sandbox): ReadonlyArray<InboxTing> =>
  planesOf(world)
    .flatMap(({ id: plane }) =>
      world.ting
        .accepted(plane)
        .slice(-newest)
        .map(({ created_at, data, for: recipient, id, key, org, type }) => ({
          ...{ id, plane, recipient, org, type, key },
          data: cutJson(data),
          createdAt: Date.parse(created_at)
        }))
    )
    .reverse()

const issues = ({ world }: Sandbox): ReadonlyArray<TrackerIssue> =>
  world.tracker
    .issues(repositoryName)
    .slice(-newest)
    .reverse()
    .map(({ body, createdAt, number, state, title }) => ({
      ...{ number, title, state, createdAt },
      url: `${world.tracker.url}/${repositoryName}/issues/${number}`,
      body: cut(body ?? "", longestIssue)
    }))

const rows = ({ world }: Sandbox): ReadonlyArray<TableRow> =>
  clientTables
    .flatMap((table) =>
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
    )
    .sort((one, other) => other.registeredAt - one.registeredAt)
    .slice(0, newest)

export const viewState = (sandbox: Sandbox, faults: InjectedFaults): State => {
  const { base, clock, world } = sandbox
  const { iam, tables, ting, tracker } = world
  return {
    now: clock.now(),
    clockOffset: clock.offset(),
    addresses: { backend: base, iam: iam.url, ting: ting.url, tables: tables.url, tracker: tracker.url },
    planes: planesOf(world),
    actors: actorsOf(world),
    slts: slts(sandbox),
    sessions: sessionsOf(sandbox),
    inbox: inbox(sandbox),
    issues: issues(sandbox),
    rows: rows(sandbox),
    faults: faults.list(),
    routes: faults.routes,
    tables: clientTables,
    tingTypes,
    webhookEvents
  }
}
