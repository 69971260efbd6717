/** The calls to IAM, Ting, the table service and the tracker, over undici's pools. */
import { createHash, createHmac, randomUUID } from "node:crypto"
import { Pool } from "@effect/platform-node/Undici"
import { Failure } from "./Failures.js"

const unavailable = (dependency) => new Failure("dependency_unavailable", { dependency })
const sha256 = (data) => createHash("sha256").update(data).digest("hex")
const appId = "music"
const minute = 60_000

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
const isText = (value) => typeof value === "string"

/** A live answer is trusted only when it is for this application and contradicts itself nowhere. */
const isTrusted = (answer) =>
  answer.client_id === appId &&
  answer.audience === appId &&
  uuid.test(answer.session_id) &&
  Number.isInteger(answer.expires_at) &&
  isText(answer.scope) &&
  Array.isArray(answer.authorizations) &&
  answer.authorizations.every(
    (one) =>
      one.audience === appId &&
      one.testing_environment_id === null &&
      uuid.test(one.organization_id) &&
      isText(one.org_id) &&
      one.public_id === answer.public_id &&
      one.membership_id === `${one.public_id}[${one.org_id}]` &&
      Array.isArray(one.scopes) &&
      one.scopes.every(isText)
  )

export const makeUpstreams = (settings) => {
  const iam = new Pool(settings.MUSIC_IAM_URL, { connections: 128 })
  const ting = new Pool(settings.MUSIC_TING_URL, { connections: 128 })
  const tables = new Pool(settings.MUSIC_TABLES_URL, { connections: 2 })
  const tracker = new Pool(settings.MUSIC_GITHUB_URL, { connections: 2 })
  const secret = settings.MUSIC_IAM_APP_SECRET
  const basic = `Basic ${Buffer.from(`${appId}:${secret}`).toString("base64")}`
  const callsPerMinute = Number(settings.MUSIC_IAM_CALLS_PER_MINUTE ?? 110)

  /** The budget for IAM: calls of each path in the current minute. */
  const calls = new Map()
  const takeCall = (path) => {
    const window = Math.floor(performance.now() / minute)
    const used = calls.get(path)
    if (used === undefined || used.window !== window) calls.set(path, { window, count: 1 })
    else if (used.count < callsPerMinute) used.count += 1
    else throw new Failure("rate_limited", undefined, { "retry-after": "60" })
  }

  const call = async (pool, dependency, { bytes = 4 * 1024 * 1024, seconds, ...options }) => {
    let response
    try {
      response = await pool.request({
        method: "POST",
        signal: AbortSignal.timeout(seconds * 1_000),
        ...options
      })
      const length = Number(response.headers["content-length"] ?? 0)
      if (length > bytes) throw unavailable(dependency)
      const text = await response.body.text()
      return {
        status: response.statusCode,
        headers: response.headers,
        json: text === "" ? undefined : JSON.parse(text)
      }
    } catch {
      throw unavailable(dependency)
    }
  }

  const callIam = async (path, headers, body) => {
    takeCall(path)
    const answer = await call(iam, "iam", {
      path: `/api/v1${path}`,
      seconds: 8,
      headers: {
        "user-agent": "music-backend/0.1.0",
        accept: "application/json",
        authorization: basic,
        "silicon-iam-supported-api-versions": "v1",
        "x-request-id": randomUUID(),
        "x-iam-telemetry": "on",
        ...headers
      },
      ...body
    })
    if ((answer.headers["silicon-iam-api-version"] ?? "v1") !== "v1") throw unavailable("iam")
    if (answer.status === 429)
      throw new Failure("rate_limited", undefined, { "retry-after": answer.headers["retry-after"] ?? "60" })
    if (answer.status === 401) throw new Failure("dependency_misconfigured")
    if (answer.status >= 500) throw unavailable("iam")
    return answer
  }

  const introspections = new Map()

  const introspectAlone = async (token) => {
    const { json, status } = await callIam(
      "/oauth/introspect",
      { "content-type": "application/x-www-form-urlencoded" },
      { body: new URLSearchParams({ token, token_type_hint: "access_token" }).toString() }
    )
    if (status !== 200 || json === undefined) throw unavailable("iam")
    if (json.active === false) throw new Failure("unauthenticated")
    if (json.active !== true || !isTrusted(json)) throw unavailable("iam")
    return json
  }

  /** Live, and shared by requests that ask for the same token at the same time. */
  const introspect = (token) => {
    const running = introspections.get(token)
    if (running !== undefined) return running
    const started = introspectAlone(token).finally(() => introspections.delete(token))
    introspections.set(token, started)
    return started
  }

  let catalogue
  const pathOf = async (endpoint) => {
    if (catalogue === undefined || catalogue.until < performance.now()) {
      const { json } = await callIam("/obo-access/applications/ting/endpoints", {}, { method: "GET" })
      catalogue = { until: performance.now() + 600_000, endpoints: json.endpoints }
    }
    return catalogue.endpoints.find(({ endpoint_id }) => endpoint_id === endpoint)?.path
  }

  const prove = async (token, organisation, endpoint, body) => {
    const path = await pathOf(endpoint)
    const key = sha256(randomUUID())
    const timestamp = String(Math.floor(Date.now() / 1_000))
    const digest = sha256(body)
    const { json, status } = await callIam(
      "/obo-access/exchanges",
      {
        "content-type": "application/json",
        "idempotency-key": key,
        "x-obo-timestamp": timestamp,
        "x-obo-signature": createHmac("sha256", secret)
          .update(`${timestamp}.POST.${path}.${digest}.${key}`)
          .digest("hex")
      },
      {
        body: JSON.stringify({
          org_id: organisation,
          subject_token: token,
          audience: "ting",
          endpoint_id: endpoint,
          metadata: {},
          request: { method: "POST", body_sha256: digest }
        })
      }
    )
    if (status === 400 || status === 401) throw new Failure("unauthenticated")
    if (status !== 201 && status !== 200) throw new Failure("forbidden")
    return { path, proof: json.access_proof }
  }

  const sendTing = async (token, organisation, fields) => {
    const body = JSON.stringify(fields)
    const { path, proof } = await prove(token, organisation, "tings.send", body)
    const { json, status } = await call(ting, "ting", {
      path,
      seconds: 15,
      headers: {
        "user-agent": "music-backend/0.1.0",
        accept: "application/json",
        authorization: `Bearer ${proof}`,
        "ting-client-version": "0.1.0",
        "content-type": "application/json"
      },
      body
    })
    if (status === 400) throw new Failure("invalid_input")
    if (status === 403) throw new Failure("forbidden")
    if (status === 409) throw new Failure("idempotency_conflict")
    if (status !== 200 && status !== 202) throw unavailable("ting")
    return { ...json, replayed: status === 200 }
  }

  const keys = { musicclidaemon: settings.MUSIC_CLIDAEMON_TABLE_KEY }

  const writeRecords = async (records) => {
    const entries = records.map(
      ({ event_at, json, record_id, table_name }) =>
        `{"key":${JSON.stringify(keys[table_name])},"metadata":${JSON.stringify({ record_id, table_id: table_name, event_ts_ms: event_at })},"record":${json}}`
    )
    const { json, status } = await call(tables, "tables", {
      path: "/api/ingest",
      seconds: 10,
      headers: { "content-type": "application/json" },
      body: `{"batch_id":"${randomUUID()}","records":[${entries.join(",")}]}`
    })
    if (status !== 200 || json.status !== "ok") throw unavailable("tables")
  }

  const fileIssue = async (issue) => {
    const { json, status } = await call(tracker, "tracker", {
      path: `/repos/${settings.MUSIC_GITHUB_REPOSITORY}/issues`,
      seconds: 15,
      headers: {
        authorization: `Bearer ${settings.MUSIC_GITHUB_TOKEN}`,
        accept: "application/vnd.github+json",
        "user-agent": "music-backend/0.1.0",
        "x-github-api-version": "2022-11-28",
        "content-type": "application/json"
      },
      body: JSON.stringify(issue)
    })
    if (status !== 201) throw unavailable("tracker")
    return json
  }

  return { introspect, sendTing, writeRecords, fileIssue, openTables: new Set(Object.keys(keys)) }
}
