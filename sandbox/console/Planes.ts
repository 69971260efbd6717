import type { SimulatedUpstreams } from "../SimulatedUpstreams.ts"
import { production } from "../upstreams/Iam.ts"
import type { Plane } from "./Protocol.ts"

export const planesOf = ({ iam, seeded }: SimulatedUpstreams): ReadonlyArray<Plane> => {
  const { environmentId, musicSecret } = seeded.environment
  const organizationsOf = (plane: string) => [...iam.controls.plane(plane).organizations.keys()].sort()
  return [
    { id: production, name: "production", key: null, organizations: organizationsOf(production) },
    { id: environmentId, name: "music e2e", key: musicSecret, organizations: organizationsOf(environmentId) }
  ]
}
