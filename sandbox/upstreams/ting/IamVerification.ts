/** Ting's calls to IAM: resolving the plane of a header pair, and verifying a proof (identity-service.md 9.1 and 10.5). */
import { createHash } from "node:crypto"
import { isRecord } from "../Json.ts"
import type { Seen } from "../Simulator.ts"
import { single } from "./RequestChecks.ts"
import { type PlaneId, production } from "./Model.ts"
import { TingError } from "./Errors.ts"

/** The plane that a caller selected, with the headers for Ting's own calls in that plane and in the caller's trace. */
export interface SelectedPlane {
  readonly id: PlaneId
  readonly credentials: Readonly<Record<string, string>>
}

export interface Verified {
  readonly issuer: string
  readonly actor: string
  readonly orgHandle: string
  readonly orgId: string
}

export interface IamVerification {
  readonly resolvePlane: (request: Seen) => Promise<SelectedPlane>
  readonly verify: (
    plane: SelectedPlane,
    request: Seen,
    call: { readonly bearer: string; readonly orgId: string }
  ) => Promise<Verified>
}

interface Answer {
  readonly status: number
  readonly body: unknown
}

/** Longest wait for a response of IAM, milliseconds. */
const timeout = 10_000

const basic = (appId: string, secret: string) =>
  `Basic ${Buffer.from(`${appId}:${secret}`).toString("base64")}`

/** Ting's own calls continue the caller's trace. */
const traceOf = (request: Seen): Readonly<Record<string, string>> => {
  const trace = single(request, "traceparent")
  return trace === undefined ? {} : { traceparent: trace }
}

const at = (value: unknown, ...path: ReadonlyArray<string>): unknown =>
  path.reduce<unknown>((inner, name) => (isRecord(inner) ? inner[name] : undefined), value)

const textAt = (value: unknown, ...path: ReadonlyArray<string>): string => {
  const found = at(value, ...path)
  return typeof found === "string" ? found : ""
}

const codeOf = (answer: Answer): string => textAt(answer.body, "error", "code")

/** The statuses by which IAM definitely refuses a proof (notification-service.md 4). */
const clearRefusals: ReadonlyArray<number> = [400, 401, 403, 404, 409, 410]

const readVerification = (body: unknown, orgId: string): Verified => {
  const verified = {
    issuer: textAt(body, "issuer_app_id"),
    actor: textAt(body, "actor", "public_id"),
    orgHandle: textAt(body, "org_id"),
    orgId: textAt(body, "authorization", "organization_id")
  }
  if (orgId !== verified.orgHandle && orgId !== verified.orgId) throw new TingError("invalid_proof")
  return verified
}

export const makeIamVerification = (options: {
  readonly iamUrl: string
  readonly appId: string
  readonly appSecret: string
  /** Instead of the platform's, for an IAM in memory. */
  readonly fetch?: typeof globalThis.fetch
}): IamVerification => {
  const { fetch = globalThis.fetch } = options
  const base = `${options.iamUrl.replace(/\/+$/, "")}/api/v1`

  const ask = async (
    path: string,
    init: RequestInit,
    credentials: SelectedPlane["credentials"]
  ): Promise<Answer> => {
    const response = await fetch(`${base}${path}`, {
      ...init,
      redirect: "manual",
      signal: AbortSignal.timeout(timeout),
      headers: {
        "user-agent": "ting/0.1.9",
        accept: "application/json",
        "content-type": "application/json",
        ...credentials
      }
    })
    const text = await response.text()
    try {
      const body: unknown = JSON.parse(text)
      return { status: response.status, body }
    } catch {
      return { status: response.status, body: undefined }
    }
  }

  /** `undefined` after a network failure or a timeout. */
  const answered = (question: Promise<Answer>): Promise<Answer | undefined> => question.catch(() => undefined)

  const resolvePlane: IamVerification["resolvePlane"] = async (request) => {
    const trace = traceOf(request)
    const secret = single(request, "iam_test_app_secret")
    const key = single(request, "x-testing-environment-key")
    if (secret === undefined && key === undefined)
      return {
        id: production,
        credentials: { authorization: basic(options.appId, options.appSecret), ...trace }
      }
    if (secret === undefined || key === undefined) throw new TingError("test_context_required")
    const authorization = basic(options.appId, secret)
    // Both headers must hold the same bytes (identity-service.md 9).
    const credentials = { authorization, "x-testing-application": authorization, ...trace }
    const answer = await answered(ask("/application/testing-context", { method: "GET" }, credentials))
    // IAM answers invalid_client to a known secret under another application's id (identity-service.md 9).
    if (answer?.status === 401)
      throw new TingError(codeOf(answer) === "invalid_client" ? "permission_denied" : "session_expired")
    if (answer?.status === 403) throw new TingError("permission_denied")
    const id = textAt(answer?.body, "environment_id")
    if (answer?.status !== 200 || id === "") throw new TingError("dependency_unavailable")
    const digest = createHash("sha256").update(key, "latin1").digest("hex")
    if (textAt(answer.body, "webhook_key_digest") !== digest)
      throw new TingError("permission_denied", "the environment key is not the current one")
    return { id, credentials }
  }

  const verify: IamVerification["verify"] = async (plane, request, call) => {
    const answer = await answered(
      ask(
        "/obo-access/verify",
        {
          method: "POST",
          body: JSON.stringify({
            access_proof: call.bearer,
            request: {
              method: request.method,
              path: request.path,
              body_sha256: createHash("sha256").update(request.body).digest("hex")
            }
          })
        },
        plane.credentials
      )
    )
    if (answer !== undefined && clearRefusals.includes(answer.status)) {
      const code = codeOf(answer)
      throw new TingError(
        code.includes("consum")
          ? "proof_consumed"
          : code.includes("expir")
            ? "proof_expired"
            : "invalid_proof"
      )
    }
    if (answer?.status !== 200 || !isRecord(answer.body)) throw new TingError("proof_verification_uncertain")
    return readVerification(answer.body, call.orgId)
  }

  return { resolvePlane, verify }
}
