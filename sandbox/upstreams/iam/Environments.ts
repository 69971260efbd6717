/** Controls of planes: testing environments are created and deleted (identity-service.md 9). */
import { randomRootKey, sha256, uuidAt } from "./Identifiers.ts"
import { type Environment, makePlane, mint, type Plane, type PlaneId, type State } from "./Model.ts"

/** A plane that exists. Throws for an unknown id, which is a mistake of the test. */
export const planeOf = (state: State, id: PlaneId): Plane => {
  const plane = state.planes.get(id)
  if (plane === undefined || plane.environment?.deleted === true) throw new Error(`there is no plane ${id}`)
  return plane
}

export const environments = (state: State) => ({
  plane: (id: PlaneId): Plane => planeOf(state, id),

  addEnvironment: (options: { readonly orgId: string; readonly name: string }) => {
    const rootKey = mint(state, randomRootKey())
    const environment: Environment = {
      ...options,
      id: uuidAt(state.now()),
      createdAt: state.now(),
      creator: "c:ana",
      rootKey,
      deleted: false
    }
    state.planes.set(environment.id, makePlane(environment.id, environment))
    return { environmentId: environment.id, rootKey, webhookKeyDigest: sha256(rootKey) }
  },

  /** Ends every secret, token and identity of the environment. */
  deleteEnvironment: (id: PlaneId): void => {
    const { environment } = planeOf(state, id)
    if (environment === undefined) throw new Error("production cannot be deleted")
    environment.deleted = true
  }
})
