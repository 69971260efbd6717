import * as HttpApi from "@effect/platform/HttpApi"
import { AuthApi } from "../http/api/Auth.ts"
import { DescriptorsApi } from "../http/api/Descriptors.ts"
import { ReportsApi } from "../http/api/Reports.ts"
import { SystemApi } from "../http/api/System.ts"
import { TelemetryApi } from "../http/api/Telemetry.ts"
import { TingsApi } from "../http/api/Tings.ts"

/** What a client calls: the service's own contract without the deliveries that only the identity service makes. */
export class ClientApi extends HttpApi.make("music")
  .add(SystemApi)
  .add(DescriptorsApi)
  .add(AuthApi)
  .add(TingsApi)
  .add(ReportsApi)
  .add(TelemetryApi) {}
