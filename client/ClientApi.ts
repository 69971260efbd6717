import * as HttpApi from "@effect/platform/HttpApi"
import { AuthApi } from "../src/http/api/Auth.ts"
import { DescriptorsApi } from "../src/http/api/Descriptors.ts"
import { ReportsApi } from "../src/http/api/Reports.ts"
import { SystemApi } from "../src/http/api/System.ts"
import { TelemetryApi } from "../src/http/api/Telemetry.ts"
import { TingsApi } from "../src/http/api/Tings.ts"

/** The service's contract without the webhook, which only the identity service calls. */
export class ClientApi extends HttpApi.make("music")
  .add(SystemApi)
  .add(DescriptorsApi)
  .add(AuthApi)
  .add(TingsApi)
  .add(ReportsApi)
  .add(TelemetryApi) {}
