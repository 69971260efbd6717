/** A plane is production or one isolated IAM testing environment. Every port call receives it as a value. */
import * as Data from "effect/Data"
import type * as Redacted from "effect/Redacted"

export type Plane = Data.TaggedEnum<{
  Production: object
  Testing: {
    /** UUID of the IAM testing environment; the partition of everything that is stored. */
    readonly environmentId: string
    /** This application's secret inside the environment; kept in memory only. */
    readonly secret: Redacted.Redacted
    /** Lower-case hex SHA-256 of the environment's root key, when IAM returns it (identity-service.md 9.1). */
    readonly webhookKeyDigest: string | undefined
  }
}>
export const { Production, Testing } = Data.taggedEnum<Plane>()
export type TestingPlane = Data.TaggedEnum.Value<Plane, "Testing">

/** `production`, or the environment's UUID: the value of every `plane` column and the plane's part of every key. */
export type PlaneId = string
export const productionId: PlaneId = "production"
export const planeId = (plane: Plane): PlaneId =>
  plane._tag === "Production" ? productionId : plane.environmentId

/** `testing_environment_id` of a response: null outside a testing plane. */
export const environmentIdOf = (plane: Plane): string | null =>
  plane._tag === "Production" ? null : plane.environmentId
