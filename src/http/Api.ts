import * as HttpApi from "@effect/platform/HttpApi"
import * as OpenApi from "@effect/platform/OpenApi"
import { version } from "../schema/Release.ts"
import { AuthApi } from "./api/Auth.ts"
import { DescriptorsApi } from "./api/Descriptors.ts"
import { ReportsApi } from "./api/Reports.ts"
import { SystemApi } from "./api/System.ts"
import { TelemetryApi } from "./api/Telemetry.ts"
import { TingsApi } from "./api/Tings.ts"
import { WebhooksApi } from "./api/Webhooks.ts"

/** The paths of the calls that belong to this version of the API; probes, documents and the webhook have others. */
export const apiPrefix = "/api/v1/"

/** Every call of the service. */
export class Api extends HttpApi.make("music")
  .add(SystemApi)
  .add(DescriptorsApi)
  .add(AuthApi)
  .add(TingsApi)
  .add(ReportsApi)
  .add(TelemetryApi)
  .add(WebhooksApi)
  .annotateContext(
    OpenApi.annotations({
      title: "Music backend",
      version,
      description:
        "The backend of a command-line music companion: sessions, notifications, reports, telemetry and webhooks. Every failure has one envelope: `error.code` for programs, `error.message` with the cause, `error.hint` with the next step, `error.retryable` for whether a retry can succeed. Requests with unknown fields are refused; responses may gain fields, and a client ignores unknown ones. Every response also carries the headers `Content-Security-Policy`, `Cross-Origin-Resource-Policy`, `Referrer-Policy`, `X-Content-Type-Options` and `X-Frame-Options`. `/docs` documents the API for people, `/openapi.json` for programs.",
      license: { name: "MIT", url: "https://opensource.org/license/mit" },
      servers: [{ url: "/", description: "This server" }]
    })
  ) {}
