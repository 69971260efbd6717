/** Sends a ting. */
import { useState } from "preact/hooks"
import { ActionButton, ProblemNote, useActing } from "./Acting.tsx"
import { Choice, JsonField, TextField, useCaller } from "./Fields.tsx"
import { useStore } from "./Store.ts"

export const TingForm = () => {
  const { system } = useStore()
  const acting = useActing()
  const { fields, org, session } = useCaller({ isOptional: false })
  const [type, setType] = useState(system.tingTypes[0] ?? "")
  const [suffix, setSuffix] = useState("trigger/1")
  const [data, setData] = useState('{ "trigger": 1 }')
  const prefix = `${session?.actor ?? "actor"}/`
  return (
    <>
      <p class="about">
        A ting notifies an actor. Ting accepts each key once, so a retry is not a second ting.
      </p>
      <div class="fields">
        {fields}
        <Choice label="Type" value={type} onInput={setType}>
          {system.tingTypes.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </Choice>
        <TextField label={`Key, after ${prefix}`} value={suffix} onInput={setSuffix} />
        <JsonField label="Data (JSON)" value={data} onInput={setData} />
      </div>
      <div class="actions">
        <ActionButton
          acting={acting}
          kind="main"
          label="Send ting"
          unavailable={session === null ? "A ting needs a session. In Callers, get an SLT and log in." : null}
          action={() =>
            session === null
              ? null
              : { kind: "ting", session: session.id, org, type, key: `${prefix}${suffix}`, data }
          }
        />
        {session === null && <span class="hint">Needs a session: get an SLT and log in first.</span>}
      </div>
      <ProblemNote acting={acting} />
    </>
  )
}
