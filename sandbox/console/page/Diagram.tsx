/** The sequence diagram of an action's calls: lifelines and arrows where there is room, otherwise a list. */
import type { ActionRecord, Call, Participant } from "../Protocol.ts"
import { duration } from "./Format.ts"
import {
  faultLabels,
  isTroubled,
  participantNames,
  participantRoles,
  participants,
  shortRoute,
  statusTone
} from "./Names.ts"
import { Badge, Foreign } from "./Parts.tsx"
import { useStore } from "./Store.ts"

/** The middle of a lifeline, in percent of the width. */
const middle = (participant: Participant): number =>
  ((participants.indexOf(participant) + 0.5) * 100) / participants.length

const heads = {
  left: "M0 0 L7 -3.5 L7 3.5 Z",
  right: "M0 0 L-7 -3.5 L-7 3.5 Z",
  lost: "M-4 -4 L4 4 M-4 4 L4 -4"
}

/** How a line ends: a head that points at its origin, or a cross. */
const End = (props: { readonly at: number; readonly y: number; readonly kind: keyof typeof heads }) => (
  <svg x={`${props.at}%`} y={props.y} overflow="visible" aria-hidden="true">
    <path class={props.kind === "lost" ? "cross" : ""} d={heads[props.kind]} />
  </svg>
)

/** The request as a line; below it the answer, dashed. What was lost on the way ends at a cross. */
const Arrow = ({ call }: { readonly call: Call }) => {
  const from = middle(call.from)
  const to = middle(call.to)
  const between = (from + to) / 2
  const [there, back] = to < from ? (["left", "right"] as const) : (["right", "left"] as const)
  const isLost = call.endedAt !== null && call.status === null
  const isDown = isLost && call.fault === "down"
  return (
    <svg class="arrow" width="100%" height="18" aria-hidden="true">
      <line x1={`${from}%`} x2={`${isDown ? between : to}%`} y1="5" y2="5" />
      <End at={isDown ? between : to} y={5} kind={isDown ? "lost" : there} />
      {!isDown && call.endedAt !== null && (
        <>
          <line class="back" x1={`${to}%`} x2={`${isLost ? between : from}%`} y1="13" y2="13" />
          <End at={isLost ? between : from} y={13} kind={isLost ? "lost" : back} />
        </>
      )}
    </svg>
  )
}

const statusText = (call: Call): string =>
  call.endedAt === null ? "…" : call.status === null ? "no answer" : String(call.status)

const CallRow = ({ call, origin }: { readonly call: Call; readonly origin: number }) => {
  const first = Math.min(middle(call.from), middle(call.to))
  return (
    <li class={`call ${isTroubled(call) ? "troubled" : ""}`}>
      <span class="offset">+{duration(call.startedAt - origin)}</span>
      <div class="lane">
        <div class="label" style={{ "--from": `${first}%` }}>
          <span class="way">
            {participantNames[call.from]} → {participantNames[call.to]}
          </span>
          <code title={`${call.method} ${call.path}`}>
            {call.method} <Foreign text={shortRoute(call.path)} />
          </code>
          <Badge tone={call.endedAt === null ? "plain" : statusTone(call.status)}>{statusText(call)}</Badge>
          {call.endedAt !== null && <span class="took">{duration(call.endedAt - call.startedAt)}</span>}
          {call.fault !== null && <Badge tone="warn">{faultLabels[call.fault]}</Badge>}
        </div>
        <Arrow call={call} />
      </div>
    </li>
  )
}

const Calls = (props: {
  readonly calls: ReadonlyArray<Call>
  readonly label: string
  readonly origin: number
}) => (
  <ol class="plain" aria-label={props.label}>
    {props.calls.map((call, index) => (
      // Calls are only appended, and two of them may be equal.
      <CallRow key={index} call={call} origin={props.origin} />
    ))}
  </ol>
)

export const Diagram = ({ record }: { readonly record: ActionRecord }) => {
  const { system } = useStore()
  const immediate = record.calls.filter(({ isLater }) => !isLater)
  const later = record.calls.filter(({ isLater }) => isLater)
  const faulty = new Set<Participant>(system.faults.map(({ upstream }) => upstream))
  return (
    <div class="diagram">
      <div class="heads">
        {participants.map((name) => (
          <span key={name} class={faulty.has(name) ? "faulty" : ""} title={participantRoles[name]}>
            {participantNames[name]}
            {faulty.has(name) && <small>fault</small>}
          </span>
        ))}
      </div>
      <div class="lines" aria-hidden="true">
        {participants.map((name) => (
          <span key={name} />
        ))}
      </div>
      <Calls calls={immediate} label="Calls before the answer" origin={record.startedAt} />
      {later.length > 0 && (
        <>
          <p class="divider">
            <span>Later, by background delivery: the answer had already been given</span>
          </p>
          <Calls calls={later} label="Calls of background delivery" origin={record.startedAt} />
        </>
      )}
    </div>
  )
}
