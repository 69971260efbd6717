/**
 * What an endpoint requires of a request besides its body. Each tag checks the form of one header before the body is read, without any
 * call, and provides what was sent (`middleware/SentHeaders.ts`). A handler that asks for what its endpoint has no tag for does not
 * compile.
 */
import * as HttpApiMiddleware from "@effect/platform/HttpApiMiddleware"
import * as HttpApiSecurity from "@effect/platform/HttpApiSecurity"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Context from "effect/Context"
import type * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type { Credential } from "../../schema/Identity.ts"
import { failures } from "./Failures.ts"

const bearer = HttpApiSecurity.annotateContext(
  HttpApiSecurity.bearer,
  OpenApi.annotations({
    format: "oat_",
    description:
      "Access token of a session from login or refresh: `oat_` and 28 to 8188 visible ASCII characters. Always sent together with `X-Org-ID`."
  })
)

/** The caller's idempotency key. */
export class SentKey extends Context.Tag("music/http/SentKey")<SentKey, Redacted.Redacted>() {}

/** `Idempotency-Key`, required. */
export class IdempotencyKey extends HttpApiMiddleware.Tag<IdempotencyKey>()("music/http/IdempotencyKey", {
  failure: failures("idempotency_key_required", "idempotency_key_invalid"),
  provides: SentKey
}) {}

/** A bearer and its organisation; IAM has not verified them. */
export class SentCredential extends Context.Tag("music/http/SentCredential")<SentCredential, Credential>() {}

/** `Authorization` with `X-Org-ID`, required. */
export class Bearer extends HttpApiMiddleware.Tag<Bearer>()("music/http/Bearer", {
  failure: failures("unauthenticated", "invalid_input"),
  security: { bearer },
  provides: SentCredential
}) {}

/** The same where a caller need not sign in. */
export class PerhapsCredential extends Context.Tag("music/http/PerhapsCredential")<
  PerhapsCredential,
  Option.Option<Credential>
>() {}

/** `Authorization` with `X-Org-ID`, or neither. */
export class OptionalBearer extends HttpApiMiddleware.Tag<OptionalBearer>()("music/http/OptionalBearer", {
  failure: failures("unauthenticated", "invalid_input"),
  security: { bearer },
  provides: PerhapsCredential
}) {}

/** The testing secret; none means production. */
export class SentTestingSecret extends Context.Tag("music/http/SentTestingSecret")<
  SentTestingSecret,
  Option.Option<Redacted.Redacted>
>() {}

/** `X-Testing-Environment-Key`: a request with this header, in any form, is a testing request. */
export class PlaneSelection extends HttpApiMiddleware.Tag<PlaneSelection>()("music/http/PlaneSelection", {
  failure: failures("testing_secret_invalid"),
  provides: SentTestingSecret
}) {}
