import type { SimulatedUpstreams } from "../SimulatedUpstreams.ts"
import { production } from "../upstreams/Iam.ts"
import type { Actor, Plane } from "./Protocol.ts"

export const planesOf = ({ iam, seeded }: SimulatedUpstreams): ReadonlyArray<Plane> => {
  const { environmentId, musicSecret } = seeded.environment
  const organizationsOf = (plane: string) => [...iam.controls.plane(plane).organizations.keys()].sort()
  return [
    { id: production, name: "production", key: null, organizations: organizationsOf(production) },
    { id: environmentId, name: "music e2e", key: musicSecret, organizations: organizationsOf(environmentId) }
  ]
}

/** People and machines of all planes, with the organisations that they are in now. */
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
