/** What arrived on the other side: the inbox, the issues, the rows. */
import type { ComponentChildren } from "preact"
import { age } from "./Format.ts"
import { Foreign, Panel, Visible } from "./Parts.tsx"
import { isTesting, issueName, rowName, tingName, useNow, useStore } from "./Store.ts"

/** Milliseconds for which an arrival is called new. */
const newFor = 10_000

interface ThingProps {
  /** As in `Model.known`. */
  readonly name: string
  readonly at: number
  readonly title: string
  readonly facts: ComponentChildren
  readonly children: ComponentChildren
}

const Thing = ({ at, children, facts, name, title }: ThingProps) => {
  const { known } = useStore().model
  const old = useNow() - at
  const isNew = known !== null && !known.has(name) && old < newFor
  return (
    <li>
      <details class={`thing ${isNew ? "new" : ""}`}>
        <summary>
          <strong>
            <Foreign text={title} />
          </strong>
          {isNew && <span class="badge good">new</span>}
          <time class="soft">{age(old)}</time>
          <span class="facts soft">{facts}</span>
        </summary>
        {children}
      </details>
    </li>
  )
}

const Json = ({ value }: { readonly value: unknown }) => <Visible text={JSON.stringify(value, null, 2)} />

/** What a row is called: by its own words, otherwise by its place. */
const nameOf = (record: unknown, cursor: number): string => {
  const fields = typeof record === "object" && record !== null ? { ...record } : {}
  const named = ["type", "event", "name"].map((name) => Reflect.get(fields, name))
  return named.find((value) => typeof value === "string" && value !== "") ?? `row ${cursor}`
}

const Shelf = (props: {
  readonly title: string
  readonly empty: string
  readonly children: ReadonlyArray<ComponentChildren>
}) => (
  <section class="shelf" aria-label={props.title}>
    <h3>
      {props.title} <span class="count">{props.children.length}</span>
    </h3>
    {props.children.length === 0 ? (
      <p class="empty">{props.empty}</p>
    ) : (
      <ul class="plain">{props.children}</ul>
    )}
  </section>
)

export const Arrivals = () => {
  const { model, system } = useStore()
  const isTested = isTesting(model)
  const of = isTested ? " of production" : ""
  return (
    <Panel id="world" note={<span class="soft">what arrived</span>}>
      <Shelf title="Inbox" empty="No ting yet. Log in, then send one in Do: it arrives here.">
        {system.inbox
          .filter(({ plane }) => plane === model.plane)
          .map(({ createdAt, data, id, key, org, recipient, type }) => (
            <Thing
              key={id}
              name={tingName(id)}
              at={createdAt}
              title={type}
              facts={
                <>
                  <Foreign text={key} /> · to <Foreign text={recipient} /> in <Foreign text={org} />
                </>
              }
            >
              <Json value={data} />
            </Thing>
          ))}
      </Shelf>
      <Shelf
        title={`Issues${of}`}
        empty={
          isTested
            ? "No issue yet. Reports of production are filed here; a report of this plane is stored and never filed."
            : "No issue yet. Send a report in Do: it is filed here."
        }
      >
        {system.issues.map(({ body, createdAt, number, state, title, url }) => (
          <Thing
            key={number}
            name={issueName(number)}
            at={createdAt}
            title={`#${number} ${title}`}
            facts={state}
          >
            <a href={url} target="_blank" rel="noreferrer">
              Its page<span class="hidden">, in a new tab</span>
            </a>
            <Visible text={body} />
          </Thing>
        ))}
      </Shelf>
      <Shelf
        title={`Rows${of}`}
        empty={
          isTested
            ? "Telemetry of a testing plane is not recorded."
            : "No row yet. Send telemetry in Do: it is shipped here."
        }
      >
        {system.rows.map(({ cursor, metadata, record, recordId, registeredAt, table }) => (
          <Thing
            key={`${table} ${cursor}`}
            name={rowName(recordId)}
            at={registeredAt}
            title={nameOf(record, cursor)}
            facts={`${table} · row ${cursor}`}
          >
            <Json value={{ metadata, record }} />
          </Thing>
        ))}
      </Shelf>
    </Panel>
  )
}
