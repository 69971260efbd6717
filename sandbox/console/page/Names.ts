/** What things are called on the page. */
import type { Call, Fault, FaultKind, Participant, Plane, Session, Upstream } from "../Protocol.ts"

export const participantNames: Readonly<Record<Participant, string>> = {
  console: "You",
  backend: "music-backend",
  iam: "IAM",
  ting: "Ting",
  tables: "Tables",
  tracker: "Tracker"
}

/** In the order of the lifelines. */
export const participants = Object.keys(participantNames) as ReadonlyArray<Participant>

export const participantRoles: Readonly<Record<Participant, string>> = {
  console: "This page as a client, or a program of yours",
  backend: "The service itself",
  iam: "Knows who people are, and issues their tokens",
  ting: "Delivers notifications",
  tables: "Keeps telemetry",
  tracker: "Keeps issues, like GitHub"
}

/** Headings of the panels, and of the part with the sessions. The tour leads to them. */
export const placeTitles = {
  callers: "Callers",
  sessions: "Sessions",
  do: "Do",
  journal: "What happened",
  world: "World",
  faults: "Faults"
} as const

export type Place = keyof typeof placeTitles

export const upstreams: ReadonlyArray<Upstream> = ["iam", "ting", "tables", "tracker"]

/** As a label for a call that met the fault. */
export const faultLabels: Readonly<Record<FaultKind, string>> = {
  down: "not reached",
  slow: "slow",
  rateLimited: "rate limited",
  lost: "answer lost"
}

/** As a choice in the form. */
export const faultChoices: ReadonlyArray<readonly [FaultKind, string]> = [
  ["lost", "answer lost after commit"],
  ["down", "down"],
  ["slow", "slow"],
  ["rateLimited", "rate limited (429)"]
]

export const faultMeanings: Readonly<Record<FaultKind, string>> = {
  lost: "The call takes effect, but its answer never arrives: the caller cannot know.",
  down: "The connection is dropped before anything happens.",
  slow: "The answer comes late.",
  rateLimited: "The answer is 429 with Retry-After."
}

export const planeName = ({ key, name }: Plane): string => (key === null ? "Production" : `Testing: ${name}`)

/** The end of a session's id, which tells it apart. */
export const shortId = (id: string): string => id.slice(-4)

/** A route without the prefix that all of them have. */
export const shortRoute = (route: string): string => route.replace("/api/v1", "")

export const faultTarget = ({ route, upstream }: Fault): string =>
  `${participantNames[upstream]} ${route === null ? "every call" : shortRoute(route)}`

export const faultLeft = ({ left }: Fault): string =>
  left === null ? "until removed" : left === 1 ? "1 call left" : `${left} calls left`

export const sessionStates: Readonly<Record<Session["status"], string>> = {
  active: "active",
  expired: "access expired",
  ended: "ended",
  compromised: "compromised"
}

export const sessionEnds: Readonly<Record<"ended" | "compromised", string>> = {
  ended: "Every token of this login is dead. The buttons still send, so that you see how it is refused.",
  compromised:
    "A spent refresh token was used again. IAM takes that for a theft and ended all tokens of this login."
}

export type Tone = "good" | "warn" | "bad" | "plain"

export const statusTone = (status: number | null): Tone =>
  status === null || status >= 500 ? "bad" : status >= 400 ? "warn" : "good"

/** A call that did not go as usual. */
export const isTroubled = (call: Call): boolean =>
  call.fault !== null || (call.endedAt !== null && (call.status === null || call.status >= 400))
