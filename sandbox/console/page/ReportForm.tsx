/** Reports a bug. */
import { useState } from "preact/hooks"
import { ActionButton, ProblemNote, useActing } from "./Acting.tsx"
import { TextArea, useCaller } from "./Fields.tsx"
import { isTesting, useStore } from "./Store.ts"

export const ReportForm = () => {
  const { model } = useStore()
  const acting = useActing()
  const { fields, org, session } = useCaller({ isOptional: true })
  const [message, setMessage] = useState("Playback stops after a seek near the end of a track.")
  return (
    <>
      <p class="about">
        {isTesting(model)
          ? "A report of a testing plane is stored before the answer and never filed."
          : "A report is stored before the answer and filed afterwards as an issue, also while the tracker is down."}
      </p>
      <div class="fields">
        {fields}
        <TextArea label="Message (10 characters at least)" value={message} onInput={setMessage} />
      </div>
      <div class="actions">
        <ActionButton
          acting={acting}
          kind="main"
          label="Send report"
          action={() => ({
            kind: "report",
            session: session?.id ?? null,
            org: session === null ? null : org,
            plane: model.plane,
            message
          })}
        />
      </div>
      <ProblemNote acting={acting} />
    </>
  )
}
