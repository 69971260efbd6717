/** The head of the page: the plane, the clock, the connection, and the ways to documentation and help. */
import { ActionButton, ProblemNote, useActing } from "./Acting.tsx"
import { offset, timeOfDay } from "./Format.ts"
import { planeName } from "./Names.ts"
import { useNow, useStore } from "./Store.ts"

const PlaneSwitch = () => {
  const { change, model, system } = useStore()
  return (
    <fieldset class="planes">
      <legend class="hidden">Plane</legend>
      {system.planes.map((plane) => (
        <label
          key={plane.id}
          title={
            plane.key === null ? "Real data" : "An isolated testing environment of IAM, selected by a header"
          }
        >
          <input
            type="radio"
            name="plane"
            value={plane.id}
            checked={model.plane === plane.id}
            onChange={() => change({ kind: "plane", plane: plane.id })}
          />
          <span>{planeName(plane)}</span>
        </label>
      ))}
    </fieldset>
  )
}

const steps = [
  ["+1 min", "1 minute", 60_000],
  ["+10 min", "10 minutes", 600_000],
  ["+1 h", "1 hour", 3_600_000],
  ["+1 day", "1 day", 86_400_000]
] as const

const SandboxClock = () => {
  const { system } = useStore()
  const acting = useActing()
  const now = useNow()
  return (
    <fieldset class="clock">
      <legend class="hidden">Clock of the sandbox</legend>
      <span class="clock-face">
        <time>{timeOfDay(now)}</time>
        <small>{system.clockOffset === 0 ? "real time" : `${offset(system.clockOffset)} ahead`}</small>
      </span>
      <span class="joined">
        {steps.map(([label, spoken, milliseconds]) => (
          <ActionButton
            key={label}
            acting={acting}
            label={label}
            of="clock"
            title={`Move the sandbox's clock on by ${spoken}`}
            action={() => ({ kind: "advanceClock", milliseconds })}
          />
        ))}
      </span>
      <ProblemNote acting={acting} />
    </fieldset>
  )
}

const connectionNames = {
  live: "Live",
  lost: "Reconnecting…",
  silent: "No answer",
  connecting: "Connecting…"
}

export const Header = (props: { readonly onTour: () => void; readonly onHelp: () => void }) => {
  const { model, system } = useStore()
  return (
    <header class="top">
      <h1>
        music-backend <span>sandbox</span>
      </h1>
      <PlaneSwitch />
      <SandboxClock />
      <nav class="links" aria-label="Documentation and help">
        <a href={`${system.addresses.backend}/docs`} target="_blank" rel="noreferrer">
          API docs<span class="hidden">, in a new tab</span>
        </a>
        <button type="button" class="quiet" onClick={props.onTour}>
          Tour
        </button>
        <button type="button" class="quiet" onClick={props.onHelp}>
          Help<span class="hidden">: terms</span>
        </button>
        <span class={`connection ${model.connection}`} role="status">
          {connectionNames[model.connection]}
        </span>
      </nav>
    </header>
  )
}
