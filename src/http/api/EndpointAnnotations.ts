/** Facts about an endpoint that the server acts on and the document tells: annotations, read by reflection. */
import * as Context from "effect/Context"

const kibibyte = 1024

/** Bounds of request bodies, bytes. */
export const bodyBounds = {
  /** Auth calls and the subscription. */
  small: 16 * kibibyte,
  telemetry: 64 * kibibyte,
  ting: 512 * kibibyte,
  report: 512 * kibibyte
} as const

/** Largest request body in bytes; 0 for a call that takes none. */
export class BodyBound extends Context.Reference<BodyBound>()("music/http/BodyBound", {
  defaultValue: (): number => 0
}) {}

/** An empty body is as good as `{}`: for a call whose body has no fields. */
export class BodyOptional extends Context.Reference<BodyOptional>()("music/http/BodyOptional", {
  defaultValue: (): boolean => false
}) {}

/** Asked by machines about the process itself: always served, never counted and never recorded. */
export class Probe extends Context.Reference<Probe>()("music/http/Probe", {
  defaultValue: (): boolean => false
}) {}

/** Its answers carry credentials or speak of them: no cache may keep one. */
export class NoStore extends Context.Reference<NoStore>()("music/http/NoStore", {
  defaultValue: (): boolean => false
}) {}
