/** What a caller can send: one form each. */
import type { FunctionComponent } from "preact"
import { useRef, useState } from "preact/hooks"
import { Panel } from "./Parts.tsx"
import { ReportForm } from "./ReportForm.tsx"
import { TelemetryForm } from "./TelemetryForm.tsx"
import { TingForm } from "./TingForm.tsx"
import { WebhookForm } from "./WebhookForm.tsx"
import { useStore } from "./Store.ts"

const forms: ReadonlyArray<readonly [string, FunctionComponent]> = [
  ["Ting", TingForm],
  ["Report", ReportForm],
  ["Telemetry", TelemetryForm],
  ["Webhook", WebhookForm]
]

export const Forms = () => {
  const { plane } = useStore().model
  const [chosen, choose] = useState(0)
  const tabs = useRef<HTMLDivElement>(null)
  const move = (event: KeyboardEvent) => {
    const last = forms.length - 1
    const targets: Readonly<Record<string, number>> = {
      ArrowRight: chosen === last ? 0 : chosen + 1,
      ArrowLeft: chosen === 0 ? last : chosen - 1,
      Home: 0,
      End: last
    }
    const target = targets[event.key]
    if (target === undefined) return
    event.preventDefault()
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
      {forms.map(([name, Form], index) => (
        <div
          key={`${plane} ${name}`}
          id={`form-${name}`}
          role="tabpanel"
          aria-labelledby={`tab-${name}`}
          hidden={index !== chosen}
        >
          <Form />
        </div>
      ))}
    </Panel>
  )
}
