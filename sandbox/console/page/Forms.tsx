/** What a caller can send: one form each. */
import type { ComponentChildren } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import type { Action } from "../Protocol.ts"
import { ActionButton, ProblemNote, useActing } from "./Acting.tsx"
import { type Caller, Choice, JsonField, Options, TextArea, TextField, useCaller } from "./Fields.tsx"
import { sentence } from "./Format.ts"
import { Panel } from "./Parts.tsx"
import { isTesting, planeOf, useStore } from "./Store.ts"

interface FormProps {
  readonly about: string
  readonly label: string
  readonly action: () => Action | null
  /** Why it cannot be sent now, and what to do. */
  readonly unavailable?: string | null
  readonly children: ComponentChildren
}

const Form = ({ about, action, children, label, unavailable = null }: FormProps) => {
  const acting = useActing()
  return (
    <>
      <p class="about">{about}</p>
      <div class="fields">{children}</div>
      <div class="actions">
        <ActionButton acting={acting} kind="main" label={label} unavailable={unavailable} action={action} />
        {unavailable !== null && <span class="hint">{unavailable}</span>}
      </div>
      <ProblemNote acting={acting} />
    </>
  )
}

/** `trigger/` and the number after those of the inbox: a key that Ting has not seen. */
const nextTrigger = (prefix: string, taken: ReadonlyArray<string>): string => {
  const start = `${prefix}trigger/`
  const numbers = taken
    .filter((key) => key.startsWith(start))
    .map((key) => Number(key.slice(start.length)))
    .filter(Number.isSafeInteger)
  return `trigger/${Math.max(0, ...numbers) + 1}`
}

const TingForm = () => {
  const { model, system } = useStore()
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
  }, [taken[0]])
  return (
    <Form
      about="A ting notifies an actor. Ting accepts each key once, so a retry is not a second ting."
      label="Send ting"
      unavailable={session === null ? "A ting needs a session. In Callers, get an SLT and log in." : null}
      action={() =>
        session === null
          ? null
          : { kind: "ting", session: session.id, org, type, key: `${prefix}${suffix}`, data }
      }
    >
      {fields}
      <Choice label="Type" value={type} onInput={setType}>
        <Options of={system.tingTypes} />
      </Choice>
      <TextField label={`Key, after ${prefix}`} value={suffix} onInput={setTyped} />
      <JsonField label="Data (JSON)" value={data} onInput={setData} />
    </Form>
  )
}

const sender = ({ org, session }: Caller, plane: string) => ({ session: session?.id ?? null, org, plane })

const ReportForm = () => {
  const { model } = useStore()
  const caller = useCaller({ isOptional: true })
  const [message, setMessage] = useState("Playback stops after a seek near the end of a track.")
  return (
    <Form
      about={
        isTesting(model)
          ? "A report of a testing plane is stored before the answer and never filed."
          : "A report is stored before the answer and filed afterwards as an issue, also while the tracker is down."
      }
      label="Send report"
      action={() => ({ kind: "report", ...sender(caller, model.plane), message })}
    >
      {caller.fields}
      <TextArea label="Message" value={message} onInput={setMessage} />
    </Form>
  )
}

const TelemetryForm = () => {
  const { model, system } = useStore()
  const caller = useCaller({ isOptional: true })
  const [table, setTable] = useState(system.tables[0] ?? "")
  const [type, setType] = useState("playback.track.started")
  const [data, setData] = useState('{ "track": 1 }')
  return (
    <Form
      about={
        isTesting(model)
          ? "A testing plane records no telemetry: the event is accepted and dropped."
          : "An event is committed to a spool before the answer, and shipped to its table within two seconds."
      }
      label="Send event"
      action={() => ({ kind: "telemetry", ...sender(caller, model.plane), table, type, data })}
    >
      {caller.fields}
      <Choice label="Table" value={table} onInput={setTable}>
        <Options of={system.tables} />
      </Choice>
      <TextField label="Type" value={type} onInput={setType} />
      <JsonField label="Data (JSON)" value={data} onInput={setData} />
    </Form>
  )
}

const WebhookForm = () => {
  const { model, system } = useStore()
  const [type, setType] = useState(system.webhookEvents[0]?.type ?? "")
  const [chosenActor, setActor] = useState("")
  const [chosenOrg, setOrg] = useState("")
  const [tamper, setTamper] = useState(false)
  const event = system.webhookEvents.find((one) => one.type === type)
  const prefix = event?.actorKind === "silicon" ? "si:" : "c:"
  const actors =
    (event?.actorKind ?? null) === null
      ? []
      : system.actors.filter(({ plane, publicId }) => plane === model.plane && publicId.startsWith(prefix))
  const actor = actors.find(({ publicId }) => publicId === chosenActor) ?? actors[0]
  // All of the plane, also those in which the actor is not: an event may add it there.
  const organizations = event?.hasOrganization === true ? (planeOf(model)?.organizations ?? []) : []
  const org = [chosenOrg, actor?.organizations[0], organizations[0]].find((name) =>
    organizations.some((one) => one === name)
  )
  return (
    <Form
      about="IAM tells the service what changed. Its signature covers every byte of the body."
      label="Send webhook"
      action={() => ({
        kind: "webhook",
        plane: model.plane,
        event: type,
        actor: actor?.publicId ?? null,
        org: org ?? null,
        tamper
      })}
    >
      <Choice label="Event" value={type} onInput={setType} isWide>
        {[...new Set(system.webhookEvents.map(({ group }) => group))].map((group) => (
          <optgroup key={group} label={group}>
            <Options of={system.webhookEvents.filter((one) => one.group === group).map((one) => one.type)} />
          </optgroup>
        ))}
      </Choice>
      <p class="meaning wide">{sentence(event?.meaning ?? "")}</p>
      {actor !== undefined && (
        <Choice label="Actor" value={actor.publicId} onInput={setActor}>
          <Options of={actors.map(({ publicId }) => publicId)} />
        </Choice>
      )}
      {org !== undefined && (
        <Choice label="Organisation" value={org} onInput={setOrg}>
          <Options of={organizations} />
        </Choice>
      )}
      <label class="switch wide">
        <input
          type="checkbox"
          checked={tamper}
          onChange={(change) => setTamper(change.currentTarget.checked)}
        />
        <span>Tamper: change one byte after it was signed</span>
      </label>
    </Form>
  )
}

const forms = [
  ["Ting", TingForm],
  ["Report", ReportForm],
  ["Telemetry", TelemetryForm],
  ["Webhook", WebhookForm]
] as const

export const Forms = () => {
  const { plane } = useStore().model
  const [chosen, choose] = useState(0)
  const tabs = useRef<HTMLDivElement>(null)
  const move = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0
    if (step === 0) return
    const target = (chosen + step + forms.length) % forms.length
    choose(target)
    tabs.current?.querySelectorAll<HTMLElement>("[role=tab]")[target]?.focus()
  }
  return (
    <Panel id="do">
      <div class="tabs" role="tablist" aria-label="What to send" ref={tabs} onKeyDown={move}>
        {forms.map(([name], index) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`tab-${name}`}
            aria-selected={index === chosen}
            aria-controls={`form-${name}`}
            tabIndex={index === chosen ? 0 : -1}
            onClick={() => choose(index)}
          >
            {name}
          </button>
        ))}
      </div>
      {forms.map(([name, Content], index) => (
        <div
          key={`${plane} ${name}`}
          id={`form-${name}`}
          role="tabpanel"
          aria-labelledby={`tab-${name}`}
          hidden={index !== chosen}
        >
          <Content />
        </div>
      ))}
    </Panel>
  )
}
