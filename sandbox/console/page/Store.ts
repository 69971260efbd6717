/** What the page knows: the server's state and actions, and what the person has chosen. Nothing is guessed: an action shows when it is done. */
import { createContext } from "preact"
import { useContext, useEffect, useState } from "preact/hooks"
import type { Action, ActionRecord, Plane, ProgramCall, Refusal, Session, State } from "../Protocol.ts"

export interface Model {
  /** `silent`: the stream is open, and nothing comes. */
  readonly connection: "connecting" | "live" | "lost" | "silent"
  /** `null` until the first state has arrived. */
  readonly system: State | null
  /** `performance.now()` when the state arrived. */
  readonly receivedAt: number
  /** The sandbox's clock when the first state arrived. */
  readonly openedAt: number
  /** Newest first. */
  readonly records: ReadonlyArray<ActionRecord>
  /** Ids of records that this connection has sent. */
  readonly confirmed: ReadonlySet<number>
  /** Id of the plane. */
  readonly plane: string
  /** The action that the person picked; `null` follows the newest. */
  readonly picked: number | null
  /** Ids of the things of the world that the first state held: everything else is new. */
  readonly known: ReadonlySet<string> | null
}

export const initial: Model = {
  connection: "connecting",
  system: null,
  receivedAt: 0,
  openedAt: 0,
  records: [],
  confirmed: new Set(),
  plane: "production",
  picked: null,
  known: null
}

export type Change =
  | { readonly kind: "connected" }
  /** The new connection has sent what it keeps: the rest is of a sandbox that no longer runs. */
  | { readonly kind: "settled" }
  | { readonly kind: "lost" | "silent" }
  | { readonly kind: "state"; readonly state: State; readonly receivedAt: number }
  | { readonly kind: "record"; readonly record: ActionRecord }
  | { readonly kind: "plane"; readonly plane: string }
  | { readonly kind: "pick"; readonly record: number | null }

export const tingName = (id: string) => `ting ${id}`
export const issueName = (number: number) => `issue ${number}`
export const rowName = (recordId: string) => `row ${recordId}`

const namesIn = (state: State): ReadonlySet<string> =>
  new Set([
    ...state.inbox.map(({ id }) => tingName(id)),
    ...state.issues.map(({ number }) => issueName(number)),
    ...state.rows.map(({ recordId }) => rowName(recordId))
  ])

/** The page keeps as many actions as it can show well. */
const keptRecords = 100

export const reduce = (model: Model, change: Change): Model => {
  switch (change.kind) {
    case "connected":
      return { ...model, connection: "live", confirmed: new Set() }
    case "settled": {
      const { confirmed } = model
      const records = model.records.filter(({ id }) => confirmed.has(id))
      return { ...model, records, picked: confirmed.has(model.picked ?? 0) ? model.picked : null }
    }
    case "lost":
    case "silent":
      return { ...model, connection: change.kind }
    case "state": {
      const { receivedAt, state } = change
      const hasPlane = state.planes.some(({ id }) => id === model.plane)
      return {
        ...model,
        connection: "live",
        system: state,
        receivedAt,
        openedAt: model.system === null ? state.now : model.openedAt,
        plane: hasPlane ? model.plane : (state.planes[0]?.id ?? model.plane),
        known: model.known ?? namesIn(state)
      }
    }
    case "record": {
      const { record } = change
      const known = model.records.find(({ id }) => id === record.id)
      // The answer to a request and the stream overtake each other: an action that has ended does not begin again.
      if (known !== undefined && known.endedAt !== null && record.endedAt === null) return model
      const others = model.records.filter(({ id }) => id !== record.id)
      const records = [...others, record].sort((one, other) => other.id - one.id).slice(0, keptRecords)
      return { ...model, records, confirmed: new Set([...model.confirmed, record.id]) }
    }
    case "plane":
      return { ...model, plane: change.plane }
    case "pick":
      return { ...model, picked: change.record }
  }
}

/** Milliseconds since the epoch, by the sandbox's clock; 0 before the first state. */
export const timeOf = ({ receivedAt, system }: Model): number =>
  system === null ? 0 : system.now + Math.max(0, performance.now() - receivedAt)

/** The action that is shown in full. */
export const shownRecord = ({ picked, records }: Model): ActionRecord | undefined =>
  records.find(({ id }) => id === picked) ?? records[0]

export const planeOf = ({ plane, system }: Model): Plane | undefined =>
  system?.planes.find(({ id }) => id === plane)

export const isTesting = (model: Model): boolean => planeOf(model)?.key !== null

/** The sessions of the chosen plane, newest first. */
export const sessionsOf = ({ plane, system }: Model): ReadonlyArray<Session> =>
  (system?.sessions ?? []).filter((session) => session.plane === plane)

/** Follows repetitions back to what was done first. */
export const firstAction = (
  record: ActionRecord,
  records: ReadonlyArray<ActionRecord>
): Action | ProgramCall => {
  const { action } = record
  if (action.kind !== "repeat") return action
  const repeated = records.find(({ id }) => id === action.action)
  return repeated === undefined || repeated.id === record.id ? action : firstAction(repeated, records)
}

export interface Store {
  readonly model: Model
  /** The state; components below the frame exist only when there is one. */
  readonly system: State
  readonly change: (change: Change) => void
  /** Resolves with the problem, or with `null` when the action was carried out. */
  readonly act: (action: Action) => Promise<Refusal | null>
  /** Says something to screen readers, politely. */
  readonly say: (text: string) => void
}

export const StoreContext = createContext<Store | null>(null)

export const useStore = (): Store => {
  const store = useContext(StoreContext)
  if (store === null) throw new Error("There is no store above this component.")
  return store
}

/** Milliseconds since the epoch, by the sandbox's clock; renders again each second. */
export const useNow = (): number => {
  const { model } = useStore()
  const [, tick] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => tick((count) => count + 1), 1_000)
    return () => clearInterval(timer)
  }, [])
  return timeOf(model)
}
