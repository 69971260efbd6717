/** Sends a ting. */
import { useEffect, useState } from "preact/hooks"
import { ActionButton, ProblemNote, useActing } from "./Acting.tsx"
import { Choice, JsonField, TextField, useCaller } from "./Fields.tsx"
import { useStore } from "./Store.ts"

/** `trigger/` and the number after those of the inbox: a key that Ting has not seen. */
const nextTrigger = (prefix: string, taken: ReadonlyArray<string>): string => {
  const numbers = taken
    .filter((key) => key.startsWith(`${prefix}trigger/`))
    .map((key) => Number(key.slice(`${prefix}trigger/`.length)))
    .filter(Number.isSafeInteger)
  return `trigger/${Math.max(0, ...numbers) + 1}`
}

export const TingForm = () => {
  const { model, system } = useStore()
  const acting = useActing()
  const { fields, org, session } = useCaller({ isOptional: false })
  const [type, setType] = useState(system.tingTypes[0] ?? "")
  const [typed, setTyped] = useState<string | null>(null)
  const [data, setData] = useState('{ "trigger": 1 }')
  const prefix = `${session?.actor ?? "actor"}/`
  const taken = system.inbox.filter(({ plane }) => plane === model.plane).map(({ key }) => key)
  const suffix = typed ?? nextTrigger(prefix, taken)
  // A key that was typed is for one ting. One that is typed again stays: its ting is a replay.
  useEffect(() => {
    if (taken.includes(`${prefix}${suffix}`)) setTyped(null)
  }, [system.inbox[0]?.id])
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
        <TextField label={`Key, after ${prefix}`} value={suffix} onInput={setTyped} />
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
