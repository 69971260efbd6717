/** What misbehaves on purpose. */
import { useState } from "preact/hooks"
import type { Fault, FaultKind, Upstream } from "../Protocol.ts"
import { ActionButton, type Acting, ProblemNote, useActing } from "./Acting.tsx"
import { Choice, Options } from "./Fields.tsx"
import {
  faultChoices,
  faultLabels,
  faultLeft,
  faultMeanings,
  faultTarget,
  participantNames,
  shortRoute,
  upstreams
} from "./Names.ts"
import { Badge, Panel } from "./Parts.tsx"
import { useStore } from "./Store.ts"

/** The route of logins and refreshes: where a lost answer teaches most. */
const usualRoute = "POST /api/v1/app-auth/tokens"

const times: ReadonlyArray<readonly [string, string, number | null]> = [
  ["1", "once", 1],
  ["2", "twice", 2],
  ["3", "3 times", 3],
  ["10", "10 times", 10],
  ["", "until removed", null]
]

const ActiveFault = ({ acting, fault }: { readonly acting: Acting; readonly fault: Fault }) => (
  <li class="fault row">
    <Badge tone="warn">{faultLabels[fault.fault]}</Badge>
    <span class="grow">
      {faultTarget(fault)} <span class="soft nowrap">{faultLeft(fault)}</span>
    </span>
    <ActionButton
      acting={acting}
      label="Remove"
      of={`${faultLabels[fault.fault]}, ${faultTarget(fault)}`}
      action={() => ({ kind: "removeFault", fault: fault.id })}
    />
  </li>
)

export const Faults = () => {
  const { system } = useStore()
  const acting = useActing()
  const [upstream, setUpstream] = useState<Upstream>("iam")
  const [route, setRoute] = useState(usualRoute)
  const [fault, setFault] = useState<FaultKind>("lost")
  const [count, setCount] = useState("1")
  const routes = system.routes[upstream]
  const usedRoute = routes.includes(route) ? route : null
  return (
    <Panel
      id="faults"
      note={
        system.faults.length > 0 ? (
          <Badge tone="warn">{system.faults.length} active</Badge>
        ) : (
          <span class="soft">none active</span>
        )
      }
    >
      <div class="fields">
        <Choice
          label="Upstream"
          value={upstream}
          onInput={(value) => setUpstream(upstreams.find((name) => name === value) ?? upstream)}
        >
          <Options of={upstreams.map((name) => [name, participantNames[name]])} />
        </Choice>
        <Choice label="Call" value={usedRoute ?? ""} onInput={setRoute}>
          <Options of={[["", "every call"], ...routes.map((name) => [name, shortRoute(name)] as const)]} />
        </Choice>
        <Choice
          label="What happens"
          value={fault}
          onInput={(value) => setFault(faultChoices.find(([kind]) => kind === value)?.[0] ?? fault)}
        >
          <Options of={faultChoices} />
        </Choice>
        <Choice label="How often" value={count} onInput={setCount}>
          <Options of={times.map(([value, name]) => [value, name])} />
        </Choice>
      </div>
      <div class="actions">
        <ActionButton
          acting={acting}
          kind="main"
          label="Add fault"
          action={() => ({
            kind: "addFault",
            upstream,
            route: usedRoute,
            fault,
            times: times.find(([value]) => value === count)?.[2] ?? null
          })}
        />
        <span class="hint">{faultMeanings[fault]}</span>
      </div>
      <ProblemNote acting={acting} />
      {system.faults.length > 0 && (
        <ul class="plain">
          {system.faults.map((active) => (
            <ActiveFault key={active.id} acting={acting} fault={active} />
          ))}
        </ul>
      )}
    </Panel>
  )
}
