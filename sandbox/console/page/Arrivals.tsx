/** What arrived on the other side: the inbox, the issues, the rows. */
import type { ComponentChildren } from "preact"
import type { InboxTing, TableRow, TrackerIssue } from "../Protocol.ts"
import { useNow } from "./Clock.ts"
import { age, plural } from "./Format.ts"
import { Empty, Foreign, Panel } from "./Parts.tsx"
import { isTesting, issueName, rowName, tingName, useStore } from "./Store.ts"

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

const Json = ({ value }: { readonly value: unknown }) => <pre>{JSON.stringify(value, null, 2)}</pre>

const Ting = ({ ting }: { readonly ting: InboxTing }) => (
  <Thing
    name={tingName(ting.id)}
    at={ting.createdAt}
    title={ting.type}
    facts={
      <>
        <Foreign text={ting.key} /> · to <Foreign text={ting.recipient} /> in <Foreign text={ting.org} />
      </>
    }
  >
    <Json value={ting.data} />
  </Thing>
)

const Issue = ({ issue }: { readonly issue: TrackerIssue }) => (
  <Thing
    name={issueName(issue.number)}
    at={issue.createdAt}
    title={`#${issue.number} ${issue.title}`}
    facts={issue.state}
  >
    <pre>{issue.body}</pre>
  </Thing>
)

const typeOf = (record: unknown): string =>
  typeof record === "object" && record !== null && "type" in record && typeof record.type === "string"
    ? record.type
    : "record"

const Row = ({ row }: { readonly row: TableRow }) => (
  <Thing
    name={rowName(row.recordId)}
    at={row.registeredAt}
    title={typeOf(row.record)}
    facts={`${row.table} · row ${row.cursor}`}
  >
    <Json value={{ metadata: row.metadata, record: row.record }} />
  </Thing>
)

const Shelf = (props: {
  readonly title: string
  readonly count: number
  readonly empty: string
  readonly children: ComponentChildren
}) => (
  <section class="shelf" aria-label={props.title}>
    <h3>
      {props.title} <span class="count">{props.count}</span>
    </h3>
    {props.count === 0 ? <Empty>{props.empty}</Empty> : <ul class="plain">{props.children}</ul>}
  </section>
)

export const Arrivals = () => {
  const { model, system } = useStore()
  const isTested = isTesting(model)
  const of = isTested ? " of production" : ""
  const sent = system.rows.filter(({ table }) => system.tables.includes(table))
  const own = system.rows.filter((row) => !sent.includes(row))
  const inbox = system.inbox.filter(({ plane }) => plane === model.plane)
  return (
    <Panel id="world" note={<span class="soft">what arrived</span>}>
      <Shelf
        title="Inbox"
        count={inbox.length}
        empty="No ting yet. Log in, then send one in Do: it arrives here."
      >
        {inbox.map((ting) => (
          <Ting key={ting.id} ting={ting} />
        ))}
      </Shelf>
      <Shelf
        title={`Issues${of}`}
        count={system.issues.length}
        empty={
          isTested
            ? "No issue yet. Reports of production are filed here; a report of this plane is stored and never filed."
            : "No issue yet. Send a report in Do: it is filed here."
        }
      >
        {system.issues.map((issue) => (
          <Issue key={issue.number} issue={issue} />
        ))}
      </Shelf>
      <Shelf
        title={`Rows${of}`}
        count={sent.length}
        empty={
          isTested
            ? "Telemetry of a testing plane is not recorded."
            : "No row yet. Send telemetry in Do: it is shipped here."
        }
      >
        {sent.map((row) => (
          <Row key={`${row.table} ${row.cursor}`} row={row} />
        ))}
      </Shelf>
      {own.length > 0 && (
        <details class="own">
          <summary class="soft">{plural(own.length, "row")} about the service itself</summary>
          <ul class="plain">
            {own.map((row) => (
              <Row key={`${row.table} ${row.cursor}`} row={row} />
            ))}
          </ul>
        </details>
      )}
    </Panel>
  )
}
