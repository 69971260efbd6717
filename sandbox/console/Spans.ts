/** The spans of the service, as OTLP in JSON. A background delivery names its report there even when its calls carry nothing of it. */
import { isRecord, parseJson } from "../upstreams/Contract.ts"

const listOf = (value: unknown, name: string): ReadonlyArray<unknown> => {
  const list = isRecord(value) ? value[name] : undefined
  return Array.isArray(list) ? list : []
}

/** The value of a span's text attribute. */
const attributeOf = (span: unknown, key: string): string | undefined => {
  const found = listOf(span, "attributes").find((attribute) => isRecord(attribute) && attribute.key === key)
  const value = isRecord(found) ? found.value : undefined
  const text = isRecord(value) ? value.stringValue : undefined
  return typeof text === "string" ? text : undefined
}

const isReportId = (text: string): boolean => /^rep_[0-9a-f]{32}$/.test(text)

interface ReportTrace {
  readonly traceId: string
  /** The id of the report. */
  readonly report: string
}

/** The traces that handle a report. Anything else is dropped. */
export const readReportTraces = (body: Buffer): ReadonlyArray<ReportTrace> =>
  listOf(parseJson(body), "resourceSpans")
    .flatMap((resource) => listOf(resource, "scopeSpans"))
    .flatMap((scope) => listOf(scope, "spans"))
    .flatMap((span) => {
      const traceId = isRecord(span) ? span.traceId : undefined
      const report = attributeOf(span, "report")
      return typeof traceId === "string" && report !== undefined && isReportId(report)
        ? [{ traceId, report }]
        : []
    })
