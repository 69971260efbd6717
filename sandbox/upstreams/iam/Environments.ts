/** Control of planes: testing environments come, are cleaned and go (identity-service.md 9). */
import { randomRootKey, sha256, shapes, uuidAt } from "./Grammar.ts"
import {
  type Environment,
  emptyPlane,
  makePlane,
  mint,
  type Plane,
  type PlaneId,
  type State
} from "./Model.ts"

/** A living plane; a mistaken id is a mistake of the test and throws. */
export const planeOf = (state: State, id: PlaneId): Plane => {
  const plane = state.planes.get(id)
  if (plane === undefined || plane.environment?.deleted === true) throw new Error(`there is no plane ${id}`)
  return plane
}

const environmentOf = (state: State, id: PlaneId): Environment => {
  const { environment } = planeOf(state, id)
  if (environment === undefined) throw new Error("production is no testing environment")
  return environment
}

export const environments = (state: State) => ({
  /** The plane itself, for a look at what it holds. */
  plane: (id: PlaneId): Plane => planeOf(state, id),

  addEnvironment: (options: {
    readonly id?: string
    readonly orgId: string
    readonly name: string
    readonly description?: string
    readonly rootKey?: string
    readonly creator?: string
  }) => {
    const now = state.now()
    const rootKey = options.rootKey ?? randomRootKey()
    if (!shapes.rootKey.test(rootKey)) throw new Error("a root key is 32 letters and digits")
    const environment: Environment = {
      id: options.id ?? uuidAt(now),
      orgId: options.orgId,
      name: options.name,
      description: options.description ?? null,
      createdAt: now,
      creator: options.creator ?? "c:ana",
      rootKey: mint(state, rootKey),
      generation: 1,
      keyGeneration: 1,
      version: 1,
      cleanedAt: null,
      deleted: false
    }
    state.planes.set(environment.id, makePlane(environment.id, environment))
    return { environmentId: environment.id, rootKey, webhookKeyDigest: sha256(rootKey) }
  },

  /** Ends every secret, token and identity of the environment. Its root key still selects the empty plane. */
  cleanEnvironment: (id: PlaneId): void => {
    const environment = environmentOf(state, id)
    emptyPlane(planeOf(state, id))
    environment.generation += 1
    environment.version += 1
    environment.cleanedAt = state.now()
  },

  deleteEnvironment: (id: PlaneId): void => {
    const environment = environmentOf(state, id)
    emptyPlane(planeOf(state, id))
    environment.deleted = true
  },

  rotateRootKey: (id: PlaneId): string => {
    const environment = environmentOf(state, id)
    environment.rootKey = mint(state, randomRootKey())
    environment.keyGeneration += 1
    environment.version += 1
    return environment.rootKey
  },

  /** `false`: a service without a testing database, every selector is 503. */
  setTestingAvailable: (available: boolean): void => {
    state.testingAvailable = available
  },

  /** From now on `version` (such as `v1`) answers 410. */
  sunsetVersion: (version: string): void => {
    state.sunset.add(version)
  }
})
