/** What every attack has and gets. An attack is played from outside: over sockets, against the server as a process. */
import type { Random } from "../../durability/Random.ts"
import type { Simulators } from "../../durability/Simulators.ts"
import type { AttackedServer } from "./AttackedServer.ts"

/** A live session, as the answer of a login describes it. */
export interface Session {
  readonly accessToken: string
  readonly refreshToken: string
  readonly organisation: string
}

export interface AttackContext {
  readonly world: Simulators
  readonly server: AttackedServer
  /** Of production; the honest probes use it as well. An attack must not end it. */
  readonly session: Session
  /** A new session of the same actor. */
  readonly login: () => Promise<Session>
  /** A further server against the same upstreams, with further settings. It stops after the attack. */
  readonly start: (environment: Readonly<Record<string, string>>) => Promise<AttackedServer>
  /** Seeded for this attack: the same seed plays the same attack. */
  readonly random: Random
  /** Connections of a flood. */
  readonly count: number
  readonly log: (line: string) => void
}

export interface Attack {
  readonly name: string
  /** Plays beside all others, because it mostly waits. It must use a server of its own. */
  readonly apart?: boolean
  /** What broke, each with what is needed to play it again; empty when the service held. */
  readonly play: (context: AttackContext) => Promise<ReadonlyArray<string>>
}
