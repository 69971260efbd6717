/** Sends one telemetry event. */
import { useState } from "preact/hooks"
import { ActionButton, ProblemNote, useActing } from "./Acting.tsx"
import { Choice, JsonField, TextField, useCaller } from "./Fields.tsx"
import { isTesting, useStore } from "./Store.ts"

export const TelemetryForm = () => {
  const { model, system } = useStore()
  const acting = useActing()
  const { fields, org, session } = useCaller({ isOptional: true })
  const [table, setTable] = useState(system.tables[0] ?? "")
  const [type, setType] = useState("playback.track.started")
  const [data, setData] = useState('{ "track": 1 }')
  return (
    <>
      <p class="about">
        {isTesting(model)
          ? "A testing plane records no telemetry: the event is accepted and dropped."
          : "An event is committed to a spool before the answer, and shipped to its table within two seconds."}
      </p>
      <div class="fields">
        {fields}
        <Choice label="Table" value={table} onInput={setTable}>
          {system.tables.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </Choice>
        <TextField label="Type" value={type} onInput={setType} />
        <JsonField label="Data (JSON)" value={data} onInput={setData} />
      </div>
      <div class="actions">
        <ActionButton
          acting={acting}
          kind="main"
          label="Send event"
          action={() => ({
            kind: "telemetry",
            session: session?.id ?? null,
            org: session === null ? null : org,
            plane: model.plane,
            table,
            type,
            data
          })}
        />
      </div>
      <ProblemNote acting={acting} />
    </>
  )
}
