/** Ting's calls to IAM: resolving the plane of a header pair, and verifying a proof (identity-service.md 9.1 and 10.5). */
import { isRecord, parseJson, type Seen, sha256 } from "../Contract.ts"
import { refuse, single } from "./Checks.ts"

export const production = "production"

type Headers = Readonly<Record<string, string>>

/** The plane that a caller selected, with the headers for Ting's own calls in that plane and in the caller's trace. */
interface SelectedPlane {
  readonly id: string
  readonly credentials: Headers
}

export interface Verified {
  readonly issuer: string
  readonly actor: string
  readonly orgHandle: string
  readonly orgId: string
}

/** Longest wait for a response of IAM, milliseconds. */
const timeout = 10_000

const basic = (appId: string, secret: string) =>
  `Basic ${Buffer.from(`${appId}:${secret}`).toString("base64")}`

const textAt = (value: unknown, ...path: ReadonlyArray<string>): string => {
  const found = path.reduce<unknown>((inner, name) => (isRecord(inner) ? inner[name] : undefined), value)
  return typeof found === "string" ? found : ""
}

/** The statuses by which IAM definitely refuses a proof (notification-service.md 4). */
const clearRefusals: ReadonlyArray<number> = [400, 401, 403, 404, 409, 410]

export const makeIamVerification = (options: {
  readonly iamUrl: string
  readonly appId: string
  readonly appSecret: string
  /** Instead of the platform's, for an IAM in memory. */
  readonly fetch?: typeof globalThis.fetch
}) => {
  const { appId, appSecret, fetch = globalThis.fetch } = options
  const base = `${options.iamUrl.replace(/\/+$/, "")}/api/v1`

  /** `undefined` after a network failure or a timeout. */
  const ask = async (path: string, credentials: Headers, body?: unknown) => {
    try {
      const response = await fetch(`${base}${path}`, {
        method: body === undefined ? "GET" : "POST",
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        redirect: "manual",
        signal: AbortSignal.timeout(timeout),
        headers: { "user-agent": "ting/0.1.9", "content-type": "application/json", ...credentials }
      })
      return { status: response.status, body: parseJson(Buffer.from(await response.arrayBuffer())) }
    } catch {
      return undefined
    }
  }

  const resolvePlane = async (request: Seen): Promise<SelectedPlane> => {
    const traceparent = single(request, "traceparent")
    const trace = traceparent === undefined ? {} : { traceparent }
    const secret = single(request, "iam_test_app_secret")
    const key = single(request, "x-testing-environment-key")
    if (secret === undefined && key === undefined)
      return { id: production, credentials: { authorization: basic(appId, appSecret), ...trace } }
    if (secret === undefined || key === undefined) throw refuse("test_context_required")
    const authorization = basic(appId, secret)
    // Both headers must hold the same bytes (identity-service.md 9).
    const credentials = { authorization, "x-testing-application": authorization, ...trace }
    const answer = await ask("/application/testing-context", credentials)
    // IAM answers invalid_client to a known secret under another application's id (identity-service.md 9).
    if (answer?.status === 401)
      throw refuse(
        textAt(answer.body, "error", "code") === "invalid_client" ? "permission_denied" : "session_expired"
      )
    if (answer?.status === 403) throw refuse("permission_denied")
    const id = textAt(answer?.body, "environment_id")
    if (answer?.status !== 200 || id === "") throw refuse("dependency_unavailable")
    if (textAt(answer.body, "webhook_key_digest") !== sha256(Buffer.from(key, "latin1")))
      throw refuse("permission_denied", "the environment key is not the current one")
    return { id, credentials }
  }

  const verify = async (
    { credentials }: SelectedPlane,
    { body, method, path }: Seen,
    call: { readonly bearer: string; readonly orgId: string }
  ): Promise<Verified> => {
    const answer = await ask("/obo-access/verify", credentials, {
      access_proof: call.bearer,
      request: { method, path, body_sha256: sha256(body) }
    })
    if (answer !== undefined && clearRefusals.includes(answer.status)) {
      const code = textAt(answer.body, "error", "code")
      if (code.includes("consum")) throw refuse("proof_consumed")
      throw refuse(code.includes("expir") ? "proof_expired" : "invalid_proof")
    }
    if (answer?.status !== 200) throw refuse("proof_verification_uncertain")
    const verified = {
      issuer: textAt(answer.body, "issuer_app_id"),
      actor: textAt(answer.body, "actor", "public_id"),
      orgHandle: textAt(answer.body, "org_id"),
      orgId: textAt(answer.body, "authorization", "organization_id")
    }
    if (call.orgId !== verified.orgHandle && call.orgId !== verified.orgId) throw refuse("invalid_proof")
    return verified
  }

  return { resolvePlane, verify }
}
