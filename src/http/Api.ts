import * as HttpApi from "@effect/platform/HttpApi"
import * as OpenApi from "@effect/platform/OpenApi"
import { version } from "../schema/Release.ts"
import { AuthApi } from "./api/Auth.ts"
import { ReportsApi } from "./api/Reports.ts"
import { DescriptorsApi, SystemApi } from "./api/System.ts"
import { TelemetryApi } from "./api/Telemetry.ts"
import { TingsApi } from "./api/Tings.ts"
import { WebhooksApi } from "./api/Webhooks.ts"
import { completeDocument } from "./openapi/Document.ts"
import { guide } from "./openapi/Guide.ts"

/** The calls in the order in which the documentation shows them. */
const calls = HttpApi.make("music")
  .add(AuthApi)
  .add(TingsApi)
  .add(ReportsApi)
  .add(TelemetryApi)
  .add(DescriptorsApi)
  .add(SystemApi)
  .add(WebhooksApi)

/** Every call of the service. `OpenApi.fromApi` makes its published document. */
export class Api extends calls.annotateContext(
  OpenApi.annotations({
    title: "Music backend",
    version,
    description: guide,
    license: { name: "MIT", url: "https://opensource.org/license/mit" },
    servers: [{ url: "/", description: "This server" }],
    transform: completeDocument(calls)
  })
) {}
