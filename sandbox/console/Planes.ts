import type { SimulatedUpstreams } from "../SimulatedUpstreams.ts"
import { production } from "../upstreams/Iam.ts"
import type { Actor, Plane } from "./Protocol.ts"

export const planesOf = ({ seeded }: SimulatedUpstreams): ReadonlyArray<Plane> => [
  { id: production, name: "production", key: null },
  { id: seeded.environment.environmentId, name: "music e2e", key: seeded.environment.musicSecret }
]

/** The people of all planes, with the organisations that they are in now. */
export const actorsOf = (world: SimulatedUpstreams): ReadonlyArray<Actor> =>
  planesOf(world).flatMap(({ id }) => {
    const { actors, memberships } = world.iam.controls.plane(id)
    return [...actors.keys()].map((publicId) => ({
      plane: id,
      publicId,
      organizations: [...memberships.values()]
        .filter(({ actor, status }) => actor === publicId && status === "active")
        .map(({ org }) => org)
        .sort()
    }))
  })
