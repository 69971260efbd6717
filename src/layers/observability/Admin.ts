/** The admin address: `/metrics` in the text format of Prometheus (0.0.4), and `/healthz`, for operators. */
import { createServer } from "node:http"
import * as HttpApp from "@effect/platform/HttpApp"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Arr from "effect/Array"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as MetricState from "effect/MetricState"
import { version } from "../../schema/Release.ts"
import { formatAddress, isLoopback } from "../../services/Addresses.ts"
import { metrics } from "../../services/Metrics.ts"
import { Settings } from "../../services/Settings.ts"
import { writeResponse } from "../../services/WriteResponse.ts"
import { makeCollectors, type Sample } from "./Collectors.ts"

/** The address is in use, or does not belong to this machine. */
export class AdminListenFailed extends Data.TaggedError("AdminListenFailed")<{ readonly reason: string }> {}

/** What is counted in this process; a histogram has samples with the suffixes of Prometheus. */
const countedSamples = () =>
  Metric.unsafeSnapshot().flatMap(({ metricKey: { name, tags }, metricState: state }) => {
    const labels = Object.fromEntries(tags.map(({ key, value }) => [key, value]))
    if (MetricState.isCounterState(state)) return [{ name, labels, value: Number(state.count) }]
    if (MetricState.isGaugeState(state)) return [{ name, labels, value: Number(state.value) }]
    if (!MetricState.isHistogramState(state)) return []
    return [
      ...state.buckets.map(([bound, value]) => {
        const le = bound === Number.POSITIVE_INFINITY ? "+Inf" : String(bound)
        return { name: `${name}_bucket`, labels: { ...labels, le }, value }
      }),
      { name: `${name}_sum`, labels, value: state.sum },
      { name: `${name}_count`, labels, value: state.count }
    ]
  })

/** All metrics that have samples. Those of Effect itself are left out. */
const expose = (read: ReadonlyArray<Sample>): string => {
  const samples = Arr.groupBy([...countedSamples(), ...read], ({ name }) =>
    name.replace(/_(?:bucket|sum|count)$/, "")
  )
  const linesOf = (name: string) =>
    (samples[name] ?? []).map(({ labels, name, value }) => {
      const pairs = Object.entries(labels).map(([label, text]) => `${label}=${JSON.stringify(text)}`)
      return `${name}{${pairs.join()}} ${value}\n`
    })
  const kindOf = (name: string) =>
    /_total$/.test(name) ? "counter" : /_duration_seconds$/.test(name) ? "histogram" : "gauge"
  return Object.entries(metrics)
    .filter(([name]) => name in samples)
    .flatMap(([name, help]) => [`# HELP ${name} ${help}\n# TYPE ${name} ${kindOf(name)}\n`, ...linesOf(name)])
    .join("")
}

const writing = HttpApp.appendPreResponseHandler((request, response) =>
  Effect.sync(() => writeResponse(request, response))
)

/** Serves until the scope closes; port 0 selects a free one. */
const serve = ({ host, port }: { readonly host: string; readonly port: number }) =>
  Effect.gen(function* () {
    const scrape = Effect.map(yield* makeCollectors, (read) =>
      HttpServerResponse.text(expose(read), { contentType: "text/plain; version=0.0.4; charset=utf-8" })
    ).pipe(Effect.tapErrorCause((cause) => Effect.logError("Scrape failed", cause)))
    const router = HttpRouter.empty.pipe(
      HttpRouter.get("/metrics", scrape),
      HttpRouter.get("/healthz", HttpServerResponse.json({ status: "ok", service: "music-backend", version }))
    )
    // Not the library's `serve`: it also listens for upgrades, and a peer that resets an upgraded connection would end the process.
    const node = createServer(yield* NodeHttpServer.makeHandler(Effect.zipRight(writing, router)))
    const { address } = yield* NodeHttpServer.make(() => node, { host, port }).pipe(
      Effect.mapError(
        ({ cause }) =>
          new AdminListenFailed({
            reason: `cannot listen on ${host}:${port}: ${String(cause)}. Stop the program that has this address, or set MUSIC_ADMIN_BIND to another address.`
          })
      )
    )
    // A connection without a request must not delay the end of the process.
    yield* Effect.addFinalizer(() => Effect.sync(() => node.close().closeAllConnections()))
    const bound = address._tag === "TcpAddress" ? address.port : port
    yield* Effect.logInfo("Metrics served", { url: `http://${formatAddress(host, bound)}/metrics` })
    if (!isLoopback(host))
      yield* Effect.logWarning(
        "Metrics are not authenticated, and MUSIC_ADMIN_BIND is not a loopback address"
      )
  })

/** Serves at `MUSIC_ADMIN_BIND`. Built before the server of the API and so closed after it: a drain can be watched. */
export const AdminLive = Layer.scopedDiscard(
  Effect.flatMap(Settings, ({ adminBind }) => Effect.transposeMapOption(adminBind, serve))
)
