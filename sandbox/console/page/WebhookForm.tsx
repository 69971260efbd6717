/** Sends an event as IAM does: signed over its bytes. */
import { useState } from "preact/hooks"
import { ActionButton, ProblemNote, useActing } from "./Acting.tsx"
import { Choice } from "./Fields.tsx"
import { sentence } from "./Format.ts"
import { useStore } from "./Store.ts"

export const WebhookForm = () => {
  const { model, system } = useStore()
  const acting = useActing()
  const [type, setType] = useState(system.webhookEvents[0]?.type ?? "")
  const [chosenActor, setActor] = useState("")
  const [chosenOrg, setOrg] = useState("")
  const [tamper, setTamper] = useState(false)
  const event = system.webhookEvents.find((one) => one.type === type)
  const actors = system.actors.filter(
    ({ plane, publicId }) =>
      plane === model.plane && publicId.startsWith(event?.actorKind === "carbon" ? "c:" : "si:")
  )
  const actor = actors.find(({ publicId }) => publicId === chosenActor) ?? actors[0]
  const org = actor?.organizations.includes(chosenOrg) === true ? chosenOrg : (actor?.organizations[0] ?? "")
  return (
    <>
      <p class="about">IAM tells the service what changed. Its signature covers every byte of the body.</p>
      <div class="fields">
        <Choice label="Event" value={type} onInput={setType} isWide>
          {system.webhookEvents.map((one) => (
            <option key={one.type}>{one.type}</option>
          ))}
        </Choice>
        <p class="meaning wide">{sentence(event?.meaning ?? "")}</p>
        <Choice label="Actor" value={actor?.publicId ?? ""} onInput={setActor}>
          {actors.map(({ publicId }) => (
            <option key={publicId}>{publicId}</option>
          ))}
        </Choice>
        <Choice label="Organisation" value={org} onInput={setOrg}>
          {actor?.organizations.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </Choice>
        <label class="switch wide">
          <input
            type="checkbox"
            checked={tamper}
            onChange={(change) => setTamper(change.currentTarget.checked)}
          />
          <span>Tamper: change one byte after it was signed</span>
        </label>
      </div>
      <div class="actions">
        <ActionButton
          acting={acting}
          kind="main"
          label="Send webhook"
          unavailable={
            actor === undefined ? "No actor of this plane is of the kind that this event is about." : null
          }
          action={() =>
            actor === undefined
              ? null
              : { kind: "webhook", plane: model.plane, event: type, actor: actor.publicId, org, tamper }
          }
        />
      </div>
      <ProblemNote acting={acting} />
    </>
  )
}
