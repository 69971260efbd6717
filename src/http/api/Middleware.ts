/**
 * What an endpoint requires of a request besides its body, as contracts: each tag names the header that it checks and the
 * failures. `handlers/Handler.ts` gives the handler of an endpoint the values of its tags; `middleware/Interpreter.ts`
 * and `middleware/HeaderChecks.ts` establish them.
 */
import * as HttpApiMiddleware from "@effect/platform/HttpApiMiddleware"
import * as HttpApiSecurity from "@effect/platform/HttpApiSecurity"
import * as OpenApi from "@effect/platform/OpenApi"
import { failures } from "./Failures.ts"

const bearer = HttpApiSecurity.annotateContext(
  HttpApiSecurity.bearer,
  OpenApi.annotations({
    format: "oat_",
    description:
      "Access token of a session from login or refresh: `oat_` and 28 to 8188 visible ASCII characters. Always sent together with `X-Org-ID`."
  })
)

/** `Idempotency-Key`, required. */
export class IdempotencyKey extends HttpApiMiddleware.Tag<IdempotencyKey>()("music/http/IdempotencyKey", {
  failure: failures("idempotency_key_required", "idempotency_key_invalid")
}) {}

/** `Authorization` with `X-Org-ID`, required; IAM vouches for the caller. */
export class Bearer extends HttpApiMiddleware.Tag<Bearer>()("music/http/Bearer", {
  failure: failures("unauthenticated", "invalid_input"),
  security: { bearer }
}) {}

/** `Authorization` with `X-Org-ID`, or neither. */
export class OptionalBearer extends HttpApiMiddleware.Tag<OptionalBearer>()("music/http/OptionalBearer", {
  failure: failures("unauthenticated", "invalid_input"),
  security: { bearer }
}) {}

/** `X-Testing-Environment-Key`: a request with this header, in any form, is a testing request. */
export class PlaneSelection extends HttpApiMiddleware.Tag<PlaneSelection>()("music/http/PlaneSelection", {
  failure: failures("testing_secret_invalid")
}) {}

/**
 * A delivery that IAM signs. The signature covers the exact bytes, so nothing is decoded before it is verified. Rate limits apply
 * only to deliveries whose signature failed: few addresses send all others.
 */
export class Signature extends HttpApiMiddleware.Tag<Signature>()("music/http/Signature", {
  failure: failures("webhook_signature_invalid")
}) {}
