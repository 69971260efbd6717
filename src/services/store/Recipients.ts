import type { PlaneId } from "../Plane.ts"
import type { Stored } from "./StoreUnavailable.ts"

/** People registered with Ting, as far as this service knows: one row per plane, organisation and actor. */
export interface Recipients {
  readonly activate: (recipient: {
    readonly plane: PlaneId
    readonly organisation: string
    readonly organisationUuid: string
    readonly publicId: string
    /** Absent when an accepted ting is the evidence. */
    readonly subscriptionId?: string
  }) => Stored<void>
  readonly deactivate: (recipient: {
    readonly plane: PlaneId
    readonly organisation: string
    readonly publicId: string
  }) => Stored<void>
  readonly isActive: (recipient: {
    readonly plane: PlaneId
    readonly organisation: string
    readonly publicId: string
  }) => Stored<boolean>
}
