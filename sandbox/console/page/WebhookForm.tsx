/** Sends an event as IAM does: signed over its bytes. */
import { useState } from "preact/hooks"
import { ActionButton, ProblemNote, useActing } from "./Acting.tsx"
import { Choice } from "./Fields.tsx"
import { sentence } from "./Format.ts"
import { planeOf, useStore } from "./Store.ts"

export const WebhookForm = () => {
  const { model, system } = useStore()
  const acting = useActing()
  const [type, setType] = useState(system.webhookEvents[0]?.type ?? "")
  const [chosenActor, setActor] = useState("")
  const [chosenOrg, setOrg] = useState("")
  const [tamper, setTamper] = useState(false)
  const event = system.webhookEvents.find((one) => one.type === type)
  const groups = [...new Set(system.webhookEvents.map(({ group }) => group))]
  const kind = event?.actorKind ?? null
  const actors = system.actors.filter(
    ({ plane, publicId }) =>
      plane === model.plane && kind !== null && publicId.startsWith(kind === "carbon" ? "c:" : "si:")
  )
  const actor = actors.find(({ publicId }) => publicId === chosenActor) ?? actors[0]
  const organizations = event?.hasOrganization === true ? (planeOf(model)?.organizations ?? []) : []
  // All of the plane, also those in which the actor is not: an event may add it there.
  const org =
    organizations.find((name) => name === chosenOrg) ??
    organizations.find((name) => name === actor?.organizations[0]) ??
    organizations[0]
  return (
    <>
      <p class="about">IAM tells the service what changed. Its signature covers every byte of the body.</p>
      <div class="fields">
        <Choice label="Event" value={type} onInput={setType} isWide>
          {groups.map((group) => (
            <optgroup key={group} label={group}>
              {system.webhookEvents
                .filter((one) => one.group === group)
                .map((one) => (
                  <option key={one.type}>{one.type}</option>
                ))}
            </optgroup>
          ))}
        </Choice>
        <p class="meaning wide">{sentence(event?.meaning ?? "")}</p>
        {actor !== undefined && (
          <Choice label="Actor" value={actor.publicId} onInput={setActor}>
            {actors.map(({ publicId }) => (
              <option key={publicId}>{publicId}</option>
            ))}
          </Choice>
        )}
        {org !== undefined && (
          <Choice label="Organisation" value={org} onInput={setOrg}>
            {organizations.map((name) => (
              <option key={name}>{name}</option>
            ))}
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
      </div>
      <div class="actions">
        <ActionButton
          acting={acting}
          kind="main"
          label="Send webhook"
          unavailable={
            kind !== null && actor === undefined
              ? "No actor of this plane is of the kind that this event is about."
              : null
          }
          action={() => ({
            kind: "webhook",
            plane: model.plane,
            event: type,
            actor: actor?.publicId ?? null,
            org: org ?? null,
            tamper
          })}
        />
      </div>
      <ProblemNote acting={acting} />
    </>
  )
}
