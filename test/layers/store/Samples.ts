import { productionId } from "../../../src/services/Plane.ts"
import {
  type Deliveries,
  type InboxEvent,
  type StoredReports,
  type SpoolEntry,
  type TelemetrySpool,
  Verified
} from "../../../src/services/Store.ts"

type Admitted = Parameters<StoredReports["admit"]>[0]

export const sampleReport = (change: Partial<Admitted> = {}): Admitted => ({
  id: "rep_1",
  plane: productionId,
  reporter: Verified({ publicId: "c:ana" }),
  content: {
    message: "Playback stops after a seek.",
    pr: "https://github.com/harbor/music/pull/12",
    attachments: [{ name: "player.log", content: "line\n" }],
    context: { os: "linux", nested: { list: [1, null, "ä"] } }
  },
  source: "cli",
  requestId: "req_1",
  createdAt: 1_000,
  marker: "0123456789abcdef0123456789abcdef",
  keyDigest: "key",
  contentDigest: "content",
  ...change
})

export const sampleEntry = (recordId: string, change: Partial<SpoolEntry> = {}): SpoolEntry => ({
  table: "musicclidaemon",
  recordId,
  eventAt: 900,
  json: `{"id":"${recordId}"}`,
  bytes: 10,
  acceptedAt: 1_000,
  ...change
})

export const sampleEvent = (change: Partial<InboxEvent> = {}): InboxEvent => ({
  plane: productionId,
  eventId: "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a",
  eventType: "organization.membership.removed.v1",
  occurredAt: "2026-09-25T10:15:30.123456Z",
  organisationUuid: "0199a0aa-0000-7000-8000-000000000001",
  aggregateType: "organization_membership",
  aggregateId: "0199a0bb-0000-7000-8000-000000000002",
  aggregateVersion: 4,
  data: "{}",
  receivedAt: 1_000,
  ...change
})

type DeliveryLease = Parameters<Deliveries["lease"]>[0]

/** For ten seconds. */
export const sampleLease = (change: Partial<DeliveryLease> = {}): DeliveryLease => ({
  now: 2_000,
  leaseUntil: (change.now ?? 2_000) + 10_000,
  ...change
})

type SpoolLease = Parameters<TelemetrySpool["lease"]>[0]

/** Leases all waiting entries of two tables for a minute. */
export const sampleSpoolLease = (change: Partial<SpoolLease> = {}): SpoolLease => ({
  tables: new Set(["musicclidaemon", "musicfrontendevents"] as const),
  count: 1_000_000,
  bytes: 1_000_000_000,
  now: 2_000,
  leaseUntil: (change.now ?? 2_000) + 60_000,
  owner: "worker",
  ...change
})
