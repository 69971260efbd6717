/** Routes, checks and the access log. */
import { createHmac, randomBytes, randomUUID, timingSafeEqual } from "node:crypto"
import Fastify from "fastify"
import { canonicalJson, sha256 } from "../../src/services/Digest.ts"
import { redactJson, redactReport } from "../../src/services/Redaction.ts"
import { envelopeOf, Failure, headersOf, statusOf } from "./Failures.js"
import { parseStrictJson } from "./StrictJson.js"

const kib = 1024
const health = { status: "ok", service: "music-backend", version: "0.1.0" }
const day = 24 * 60 * 60 * 1_000

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
const rfc3339 = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})$/
const bearer = /^Bearer (oat_[\x21-\x7e]{28,8188})$/
const requestIdShape = /^[A-Za-z0-9._-]{8,128}$/
const keyShape = /^[\x21-\x7e]{16,255}$/

const object = (properties, required) => ({
  type: "object",
  properties,
  required,
  additionalProperties: false
})

const reportBody = object(
  {
    message: { type: "string" },
    pr: { type: ["string", "null"], maxLength: 500 },
    attachments: {
      type: ["array", "null"],
      maxItems: 5,
      items: object(
        {
          name: { type: "string", minLength: 1, maxLength: 120 },
          content: { type: "string", maxLength: 100_000 }
        },
        ["name", "content"]
      )
    },
    context: { type: ["object", "null"] }
  },
  ["message"]
)

const telemetryBody = object(
  {
    table: { type: "string" },
    events: { type: "array", minItems: 1, maxItems: 40, items: { type: "object" } }
  },
  ["table", "events"]
)

const tingBody = object(
  {
    type: { type: "string", minLength: 1, maxLength: 255 },
    key: { type: "string", minLength: 1 },
    data: { type: "object" },
    metadata: { type: "object" }
  },
  ["type", "key", "data"]
)

const webhookBody = {
  type: "object",
  properties: {
    spec_version: { const: "1.0" },
    event_id: { type: "string", pattern: uuid.source },
    event_type: { type: "string" },
    occurred_at: { type: "string", pattern: rfc3339.source },
    organization_id: { type: ["string", "null"] },
    aggregate: {
      type: "object",
      properties: {
        type: { type: "string", minLength: 1 },
        id: { type: "string", minLength: 1 },
        version: { type: "integer", minimum: 1 }
      },
      required: ["type", "id", "version"]
    },
    data: { type: "object" }
  },
  required: ["spec_version", "event_id", "event_type", "occurred_at", "aggregate", "data"]
}

/** Lines of one turn of the event loop leave together. */
const makeLog = () => {
  let lines = ""
  const flush = () => {
    process.stdout.write(lines)
    lines = ""
  }
  return (fields) => {
    if (lines === "") setImmediate(flush)
    lines += `${JSON.stringify(fields)}\n`
  }
}

const fieldsOf = (errors) =>
  errors.slice(0, 20).map(({ instancePath, keyword, message, params }) => {
    const at = instancePath.slice(1).replaceAll("/", ".")
    const within = (name) => (at === "" ? name : `${at}.${name}`)
    if (keyword === "additionalProperties")
      return { path: within(params.additionalProperty), problem: "is not a known field" }
    if (keyword === "required") return { path: within(params.missingProperty), problem: "is missing" }
    return { path: at, problem: message }
  })

const toFailure = (error) => {
  if (error instanceof Failure) return error
  if (error.validation !== undefined)
    return new Failure("invalid_input", { fields: fieldsOf(error.validation) })
  if (error.code === "FST_ERR_CTP_BODY_TOO_LARGE") return new Failure("payload_too_large")
  if (error.code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") return new Failure("unsupported_media_type")
  if (error.code?.startsWith("SQLITE_"))
    return new Failure("dependency_unavailable", { dependency: "database" })
  return new Failure("internal")
}

const invalid = (path, problem) => new Failure("invalid_input", { fields: [{ path, problem }] })

const eventTime = (event, receivedAt) => {
  const at = event.metadata?.occurred_at
  const claimed =
    typeof at === "number" ? at : typeof at === "string" && rfc3339.test(at) ? Date.parse(at) : Number.NaN
  return claimed >= receivedAt - 30 * day && claimed <= receivedAt + day ? Math.trunc(claimed) : receivedAt
}

const toRecord = (table, event, acceptedAt) => {
  const known = typeof event.id === "string" && uuid.test(event.id)
  const recordId = known ? event.id.toLowerCase() : randomUUID()
  const json = JSON.stringify(redactJson(!known && "id" in event ? event : { ...event, id: recordId }))
  return {
    table,
    recordId,
    eventAt: eventTime(event, acceptedAt),
    json,
    bytes: Buffer.byteLength(json),
    acceptedAt
  }
}

export const makeServer = ({ delivery, settings, store, upstreams }) => {
  const log = makeLog()
  const limited = settings.MUSIC_RATE_LIMIT !== "off"
  const server = Fastify({
    logger: false,
    keepAliveTimeout: 65_000,
    requestTimeout: 60_000,
    genReqId: ({ headers }) => {
      const given = headers["x-request-id"]
      return given !== undefined && requestIdShape.test(given)
        ? given
        : `req_${randomBytes(16).toString("hex")}`
    },
    ajv: {
      customOptions: { removeAdditional: false, coerceTypes: false, useDefaults: false, allErrors: true }
    }
  })

  server.removeAllContentTypeParsers()
  server.addContentTypeParser("application/json", { parseAs: "buffer" }, (request, bytes, done) => {
    try {
      if (request.routeOptions.config.keepBytes) request.bytes = bytes
      done(null, parseStrictJson(bytes))
    } catch (error) {
      done(error)
    }
  })

  server.setErrorHandler((error, request, reply) => {
    const failure = toFailure(error)
    request.failure = failure.code
    reply.code(statusOf(failure)).headers(headersOf(failure)).send(envelopeOf(failure))
  })
  server.setNotFoundHandler(() => {
    throw new Failure("not_found")
  })

  /** Requests of each address in the current minute; the limit of this service is 1,200. */
  const counts = new Map()
  const countRequest = (request, reply) => {
    const minute = Math.floor(performance.now() / 60_000)
    const found = counts.get(request.ip)
    const count = found?.minute === minute ? found : { minute, used: 0 }
    counts.set(request.ip, count)
    count.used += 1
    reply.header("ratelimit", `"address";r=${Math.max(0, 1_200 - count.used)};t=60`)
    reply.header("ratelimit-policy", '"address";q=1200;w=60')
    if (count.used > 1_200) throw new Failure("rate_limited", undefined, { "retry-after": "60" })
  }

  let inFlight = 0
  server.addHook("onRequest", async (request, reply) => {
    reply.header("x-request-id", request.id)
    inFlight += 1
    if (inFlight > 1_000) throw new Failure("overloaded", undefined, { "retry-after": "1" })
    const { headers } = request
    if (request.routeOptions.config.noStore) reply.header("cache-control", "no-store")
    if (headers["x-testing-environment-key"] !== undefined) throw new Failure("testing_secret_invalid")
    if (headers["x-music-telemetry"] === "off" || headers.dnt === "1" || headers["sec-gpc"] === "1")
      request.recording = false
    if (request.routeOptions.config.keyed) {
      const key = headers["idempotency-key"]
      if (key === undefined) throw new Failure("idempotency_key_required")
      if (!keyShape.test(key)) throw new Failure("idempotency_key_invalid")
    }
  })
  server.addHook("preHandler", async (request, reply) => {
    if (limited && request.routeOptions.config.metered !== false) countRequest(request, reply)
  })
  server.addHook("onResponse", async (request, reply) => {
    inFlight -= 1
    log({
      time: new Date().toISOString(),
      level: "info",
      message: "Request",
      request_id: request.id,
      method: request.method,
      route: request.routeOptions.url ?? "unmatched",
      status: reply.statusCode,
      duration_ms: Math.round(reply.elapsedTime * 100) / 100,
      code: request.failure,
      source: request.headers["x-music-source"] ?? "unknown",
      plane: "production",
      actor: request.actor ?? "anonymous"
    })
  })
  server.decorateRequest("failure", undefined)
  server.decorateRequest("bytes", undefined)
  server.decorateRequest("actor", undefined)
  server.decorateRequest("recording", true)

  const authenticate = async (request) => {
    const token = bearer.exec(request.headers.authorization ?? "")?.[1]
    if (token === undefined) throw new Failure("unauthenticated")
    const organisation = request.headers["x-org-id"]
    if (organisation === undefined || !/^[a-z0-9_-]{3,50}$/.test(organisation))
      throw invalid("X-Org-ID", "must be the handle of an organisation")
    const session = await upstreams.introspect(token)
    const membership = session.authorizations.find(({ org_id }) => org_id === organisation)
    if (membership === undefined) throw new Failure("forbidden")
    if (membership.public_id === undefined) throw new Failure("reconsent_required")
    request.actor = membership.actor_type
    return { token, session, membership }
  }

  server.get("/healthz", { config: { metered: false } }, async () => health)
  server.get("/readyz", { config: { metered: false } }, async () => {
    if (!store.isReady()) throw new Failure("dependency_unavailable", { dependency: "database" })
    return { status: "ready" }
  })

  server.get("/api/v1/auth/me", { config: { noStore: true } }, async (request) => {
    const { membership, session } = await authenticate(request)
    const { actor_type, membership_id, org_id, public_id } = membership
    const scopes = [...membership.scopes].sort()
    return {
      authenticated: true,
      actor: { type: actor_type, public_id },
      org_id,
      membership_id,
      session_id: session.session_id,
      scopes,
      ting_ready: store.isRecipient(org_id, public_id) && scopes.includes("obo:ting:tings.send"),
      testing_environment_id: null
    }
  })

  server.post("/api/v1/tings", { bodyLimit: 512 * kib, schema: { body: tingBody } }, async (request) => {
    const { membership, token } = await authenticate(request)
    const { data, key, metadata, type } = request.body
    if (type !== "music.trigger.fired" && type !== "music.trigger.expired") throw new Failure("not_found")
    if (!key.startsWith(`${membership.public_id}/`))
      throw invalid("key", "must start with your own public id and a slash")
    if (Buffer.byteLength(key) > 200) throw invalid("key", "must be 1 to 200 bytes of UTF-8")
    if (!membership.scopes.includes("obo:ting:tings.send")) throw new Failure("reconsent_required")
    const sent = await upstreams.sendTing(token, membership.org_id, {
      org_id: membership.org_id,
      type,
      for: membership.public_id,
      key,
      data,
      ...(metadata === undefined ? {} : { metadata })
    })
    if (!store.isRecipient(membership.org_id, membership.public_id))
      await store.activateRecipient(membership.org_id, membership.public_id)
    return {
      id: sent.id,
      created_at: sent.created_at,
      key,
      silent: sent.silent ?? false,
      replayed: sent.replayed
    }
  })

  server.post(
    "/api/v1/reports",
    { bodyLimit: 512 * kib, config: { keyed: true }, schema: { body: reportBody } },
    async (request) => {
      const { attachments = null, context = null, message, pr = null } = request.body
      const length = [...message.trim()].length
      if (length < 10 || length > 20_000)
        throw invalid("message", "must be 10 to 20,000 characters after trimming")
      if (pr !== null && !pr.startsWith(`https://github.com/${settings.MUSIC_GITHUB_REPOSITORY}/pull/`))
        throw invalid("pr", "must be a pull request of the configured repository")
      if (context !== null && Buffer.byteLength(JSON.stringify(context)) > 32 * kib)
        throw invalid("context", "must be at most 32 KiB of JSON")
      const reporter =
        request.headers.authorization === undefined
          ? "anonymous"
          : `verified:${(await authenticate(request)).membership.public_id}`
      const report = {
        id: `rep_${randomBytes(16).toString("hex")}`,
        keyDigest: sha256(request.headers["idempotency-key"]),
        contentDigest: sha256(canonicalJson(request.body)),
        reporter,
        content: JSON.stringify(redactReport({ message, pr, attachments: attachments ?? [], context })),
        source: request.headers["x-music-source"] ?? "unknown",
        requestId: request.id,
        createdAt: Date.now(),
        marker: randomBytes(16).toString("hex")
      }
      const admission = await store.admitReport(report)
      if (admission.kind === "conflict") throw new Failure("idempotency_conflict")
      if (admission.kind === "full") throw new Failure("reports_full", undefined, { "retry-after": "3600" })
      const replayed = admission.kind === "replayed"
      const { row } = admission
      return {
        id: replayed ? row.id : report.id,
        status: replayed && row.issue_url !== null ? "filed" : "stored",
        issue_url: replayed ? row.issue_url : null,
        reporter: reporter === "anonymous" ? null : reporter.slice("verified:".length),
        created_at: new Date(replayed ? row.created_at : report.createdAt).toISOString(),
        replayed
      }
    }
  )

  server.post(
    "/api/v1/telemetry",
    { bodyLimit: 64 * kib, schema: { body: telemetryBody } },
    async (request, reply) => {
      const { events, table } = request.body
      if (!upstreams.openTables.has(table))
        throw invalid("table", "is not a table that accepts client events here")
      reply.code(204)
      if (!request.recording) return
      const now = Date.now()
      const admission = await store.offerRecords(events.map((event) => toRecord(table, event, now)))
      if (admission === "full") throw new Failure("spool_full", undefined, { "retry-after": "30" })
      delivery.wakeUp()
    }
  )

  const keyVersion = settings.MUSIC_IAM_WEBHOOK_KEY_VERSION
  const webhookSecret = settings.MUSIC_IAM_WEBHOOK_SECRET
  const verifySignature = ({ bytes, headers }) => {
    const timestamp = headers["x-silicon-iam-timestamp"] ?? ""
    const signature = headers["x-silicon-iam-signature"] ?? ""
    const fresh = /^[1-9]\d{0,14}$/.test(timestamp) && Math.abs(Date.now() / 1_000 - Number(timestamp)) <= 300
    return (
      fresh &&
      headers["x-silicon-iam-key-version"] === keyVersion &&
      /^v1=[0-9a-f]{64}$/.test(signature) &&
      timingSafeEqual(
        createHmac("sha256", webhookSecret).update(`${timestamp}.`).update(bytes).digest(),
        Buffer.from(signature.slice(3), "hex")
      )
    )
  }

  server.post(
    "/webhook/",
    {
      bodyLimit: 1024 * kib,
      config: { keepBytes: true, metered: false },
      schema: { body: webhookBody },
      preValidation: async (request) => {
        if (!verifySignature(request)) throw new Failure("webhook_signature_invalid")
      }
    },
    async ({ body, headers }) => {
      if (body.event_id !== headers["x-silicon-iam-event-id"]) throw new Failure("webhook_signature_invalid")
      await store.receiveEvent({
        eventId: body.event_id,
        eventType: body.event_type,
        occurredAt: body.occurred_at,
        organisationUuid: body.organization_id ?? null,
        aggregateType: body.aggregate.type,
        aggregateId: body.aggregate.id,
        aggregateVersion: body.aggregate.version,
        data: JSON.stringify(body.data),
        receivedAt: Date.now()
      })
      return { received: true }
    }
  )

  return server
}
