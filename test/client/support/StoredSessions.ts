import type { StoredSession } from "../../../client/index.ts"

/** A session as a store keeps it, for tests of stores alone. */
export const storedSession = (slot: string): StoredSession => ({
  version: 1,
  slot,
  access_token: "oat_1",
  refresh_token: "ort_1",
  expires_in: 1800,
  obtained_at: 0,
  scope: "",
  actor: { type: "silicon", public_id: "si:deejay" },
  org_id: "acme",
  org_ids: ["acme"],
  testing_environment_id: null,
  login_key: "key",
  ting: { subscribed: true }
})
