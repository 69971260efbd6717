/** The least that the platform's packages cost: an `HttpApi` with one call, served without middleware. A peer of the benchmarks. */
import { createServer } from "node:http"
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"

const Health = Schema.Struct({ status: Schema.String, service: Schema.String, version: Schema.String })

const Bare = HttpApi.make("bare").add(
  HttpApiGroup.make("system").add(HttpApiEndpoint.get("healthz", "/healthz").addSuccess(Health))
)

const handlers = HttpApiBuilder.group(Bare, "system", (group) =>
  group.handle("healthz", () => Effect.succeed({ status: "ok", service: "music-backend", version: "0.1.0" }))
)

const [host = "", port] = (process.env.MUSIC_BIND ?? "").split(":")

HttpApiBuilder.serve().pipe(
  Layer.provide(Layer.provide(HttpApiBuilder.api(Bare), handlers)),
  Layer.provide(NodeHttpServer.layer(createServer, { host, port: Number(port) })),
  Layer.launch,
  NodeRuntime.runMain
)
