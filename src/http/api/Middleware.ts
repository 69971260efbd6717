/**
 * Checks of header shapes, as contracts: each tag declares the value that it provides and its failures;
 * `middleware/HeaderChecks` implements them. They run before the body is read; the tag that is added last runs first.
 */
import * as HttpApiMiddleware from "@effect/platform/HttpApiMiddleware"
import * as HttpApiSecurity from "@effect/platform/HttpApiSecurity"
import * as OpenApi from "@effect/platform/OpenApi"
import {
  CallerKey,
  CurrentCredential,
  OptionalCredential,
  PlaneSelector
} from "../../services/RequestCredentials.ts"
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
  failure: failures("idempotency_key_required", "idempotency_key_invalid"),
  provides: CallerKey
}) {}

/** `Authorization` with `X-Org-ID`, required. */
export class Bearer extends HttpApiMiddleware.Tag<Bearer>()("music/http/Bearer", {
  failure: failures("unauthenticated", "invalid_input"),
  provides: CurrentCredential,
  security: { bearer }
}) {}

/** `Authorization` with `X-Org-ID`, or neither. */
export class OptionalBearer extends HttpApiMiddleware.Tag<OptionalBearer>()("music/http/OptionalBearer", {
  failure: failures("unauthenticated", "invalid_input"),
  provides: OptionalCredential,
  security: { bearer }
}) {}

/** `X-Testing-Environment-Key`: a request with this header, in any form, is a testing request. */
export class PlaneSelection extends HttpApiMiddleware.Tag<PlaneSelection>()("music/http/PlaneSelection", {
  failure: failures("testing_secret_invalid"),
  provides: PlaneSelector
}) {}
