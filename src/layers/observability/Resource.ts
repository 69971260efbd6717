import { resourceFromAttributes } from "@opentelemetry/resources"
import { version } from "../../schema/Release.ts"
import type { SettingsValues } from "../../services/Settings.ts"

/** Who sends, by OpenTelemetry's names. */
export const resourceOf = ({
  resource,
  serviceName
}: Pick<SettingsValues["openTelemetry"], "resource" | "serviceName">) =>
  resourceFromAttributes({
    "service.version": version,
    ...Object.fromEntries(resource),
    "service.name": serviceName
  })

/** Milliseconds that the last batch may take at the end of the process. */
export const flushMillis = 1_000
