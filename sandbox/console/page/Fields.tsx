/** Labelled fields of the forms. */
import type { ComponentChildren } from "preact"
import { useId, useState } from "preact/hooks"
import { jsonFault } from "./Format.ts"
import { sessionStates, shortId } from "./Names.ts"
import { sessionsOf, useStore } from "./Store.ts"

interface FieldProps {
  readonly label: string
  readonly value: string
  readonly onInput: (value: string) => void
}

/** A field below its label. */
const Labelled = (props: {
  readonly label: string
  readonly isWide?: boolean
  readonly children: ComponentChildren
}) => (
  // biome-ignore lint/a11y/noLabelWithoutControl: the children hold the control
  <label class={`field ${props.isWide === true ? "wide" : ""}`}>
    <span>{props.label}</span>
    {props.children}
  </label>
)

export const TextField = ({ label, onInput, value }: FieldProps) => (
  <Labelled label={label}>
    <input
      value={value}
      spellcheck={false}
      autocomplete="off"
      onInput={(event) => onInput(event.currentTarget.value)}
    />
  </Labelled>
)

export const TextArea = ({ label, onInput, value }: FieldProps) => (
  <Labelled label={label} isWide>
    <textarea dir="auto" rows={3} value={value} onInput={(event) => onInput(event.currentTarget.value)} />
  </Labelled>
)

/** Text that should be JSON. It can be sent when it is not, so that the service's refusal can be seen. */
export const JsonField = ({ label, onInput, value }: FieldProps) => {
  const fault = jsonFault(value)
  const id = useId()
  return (
    <Labelled label={label} isWide>
      <textarea
        class="code"
        rows={3}
        value={value}
        spellcheck={false}
        aria-invalid={fault !== null}
        aria-describedby={id}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
      <small id={id} class="fault-text">
        {fault === null ? "" : `No JSON yet: ${fault}`}
      </small>
    </Labelled>
  )
}

export const Choice = ({
  children,
  onInput,
  value,
  ...frame
}: FieldProps & { readonly children: ComponentChildren; readonly isWide?: boolean }) => (
  <Labelled {...frame}>
    <select value={value} onChange={(event) => onInput(event.currentTarget.value)}>
      {children}
    </select>
  </Labelled>
)

/** Choices by their value, each with its name where it has another one. */
export const Options = (props: { readonly of: ReadonlyArray<string | readonly [string, string]> }) => (
  <>
    {props.of.map((option) => {
      const [value, name] = typeof option === "string" ? [option, option] : option
      return (
        <option key={value} value={value}>
          {name}
        </option>
      )
    })}
  </>
)

/** Who sends it, and for which organisation: by default the newest active session. */
export const useCaller = (options: { readonly isOptional: boolean }) => {
  const { model } = useStore()
  const [chosen, choose] = useState<string | null>(null)
  const [org, setOrg] = useState("")
  const sessions = sessionsOf(model)
  const usual =
    sessions.find(({ status }) => status === "active") ?? (options.isOptional ? undefined : sessions[0])
  const picked = chosen === "" ? undefined : sessions.find(({ id }) => id === chosen)
  const session = (chosen === "" && options.isOptional ? undefined : (picked ?? usual)) ?? null
  const usedOrg = session?.organizations.includes(org) === true ? org : (session?.organizations[0] ?? "")
  const fields = (
    <>
      <Choice label="Caller" value={session?.id ?? ""} onInput={choose}>
        {(options.isOptional || session === null) && (
          <option value="">{options.isOptional ? "not signed in" : "log in first"}</option>
        )}
        <Options
          of={sessions.map(({ actor, id, status }) => [
            id,
            `${actor} · ${shortId(id)}${status === "active" ? "" : ` (${sessionStates[status]})`}`
          ])}
        />
      </Choice>
      <Choice label="Organisation" value={usedOrg} onInput={setOrg}>
        {usedOrg === "" && <option value="">none</option>}
        <Options of={session?.organizations ?? []} />
      </Choice>
    </>
  )
  return { session, org: usedOrg, fields }
}

/** Without a session: not signed in. */
export type Caller = ReturnType<typeof useCaller>
