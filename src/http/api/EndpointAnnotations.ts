/** Annotations of endpoints that the server and the OpenAPI document read by reflection. */
import * as Context from "effect/Context"

/** Largest request body in bytes; 0 for a call without a body. */
export class BodyBound extends Context.Reference<BodyBound>()("music/http/BodyBound", {
  defaultValue: (): number => 0
}) {}

/** An empty body means `{}`: for a call whose body has no fields. */
export class BodyOptional extends Context.Reference<BodyOptional>()("music/http/BodyOptional", {
  defaultValue: (): boolean => false
}) {}

/** A health check of the process: always served and never rate limited. */
export class Probe extends Context.Reference<Probe>()("music/http/Probe", {
  defaultValue: (): boolean => false
}) {}

/** Responses hold or describe credentials: they are sent with `Cache-Control: no-store`. */
export class NoStore extends Context.Reference<NoStore>()("music/http/NoStore", {
  defaultValue: (): boolean => false
}) {}
