/** What happened: the actions, and the chosen one in full. */
import { useEffect, useRef } from "preact/hooks"
import type { ActionRecord } from "../Protocol.ts"
import { ActionButton, ProblemNote, useActing } from "./Acting.tsx"
import { Diagram } from "./Diagram.tsx"
import { ExchangeView } from "./ExchangeView.tsx"
import { curlOf, duration, responseText, timeOfDay, visible } from "./Format.ts"
import { lessonOf } from "./Lesson.ts"
import { participantNames, participantRoles, participants, planeName, statusTone } from "./Names.ts"
import { Badge, CopyButton, Foreign, Panel } from "./Parts.tsx"
import { firstAction, shownRecord, useStore } from "./Store.ts"

export const ResultBadge = ({ record: { endedAt, exchange } }: { readonly record: ActionRecord }) => {
  if (endedAt === null) return <Badge tone="plain">…</Badge>
  if (exchange === null) return <Badge tone="plain">done</Badge>
  return <Badge tone={statusTone(exchange.status)}>{exchange.status ?? "no answer"}</Badge>
}

/** The plane of an action: in the list by its name alone. */
const PlaneName = (props: { readonly record: ActionRecord; readonly isShort?: boolean }) => {
  const plane = useStore().system.planes.find(({ id }) => id === props.record.plane)
  if (plane === undefined) return null
  return <span class="plane soft">{props.isShort === true ? plane.name : planeName(plane)}</span>
}

const RecordList = () => {
  const { change, model } = useStore()
  const list = useRef<HTMLOListElement>(null)
  const shown = shownRecord(model)
  const newest = model.records[0]?.id
  useEffect(() => {
    if (model.picked === null) list.current?.scrollTo({ top: 0 })
  }, [newest, model.picked])
  const move = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
    if (step === 0) return
    event.preventDefault()
    const at = (shown === undefined ? -1 : model.records.indexOf(shown)) + step
    const next = model.records[at]
    if (next === undefined) return
    change({ kind: "pick", record: next.id })
    list.current?.querySelectorAll("button")[at]?.focus()
  }
  return (
    <ol class="plain records" ref={list} onKeyDown={move} aria-label="Actions, newest first">
      {model.records.map((record) => (
        <li key={record.id}>
          <button
            type="button"
            class="record"
            aria-current={record === shown ? "true" : undefined}
            tabIndex={record === shown ? 0 : -1}
            onClick={() => change({ kind: "pick", record: record.id })}
          >
            <span class="number soft">{record.id}</span>
            <span class="grow" title={visible(record.title)}>
              <Foreign text={record.title} />
            </span>
            <PlaneName record={record} isShort />
            <ResultBadge record={record} />
            <span class="took">
              {record.endedAt === null || record.exchange === null
                ? ""
                : duration(record.endedAt - record.startedAt)}
            </span>
            <time class="soft">{timeOfDay(record.startedAt)}</time>
          </button>
        </li>
      ))}
    </ol>
  )
}

const Shown = ({ record }: { readonly record: ActionRecord }) => {
  const { model } = useStore()
  const acting = useActing()
  const { exchange } = record
  const article = useRef<HTMLElement>(null)
  // Another action is read from its beginning.
  useEffect(() => article.current?.closest(".panel")?.scrollTo({ top: 0 }), [record.id])
  const nothing =
    exchange === null
      ? "This action sent no request to the service, so there is nothing to send again."
      : null
  return (
    <article class="shown" ref={article} aria-labelledby="shown-title">
      <div class="row">
        <h3 id="shown-title" class="grow">
          <ResultBadge record={record} /> <Foreign text={record.title} /> <PlaneName record={record} />
        </h3>
        <span class="joined">
          <ActionButton
            acting={acting}
            label="Send again"
            title="The same request byte for byte, with the same idempotency key"
            unavailable={nothing}
            action={() => ({ kind: "repeat", action: record.id })}
          />
          {exchange?.isCut === true && (
            <span class="hint">Too long for curl: the end of its body is not kept.</span>
          )}
          {exchange?.isCut === false && <CopyButton label="Copy as curl" text={() => curlOf(exchange)} />}
          {exchange !== null && <CopyButton label="Copy response" text={() => responseText(exchange)} />}
        </span>
      </div>
      <ProblemNote acting={acting} />
      <p class="lesson">{lessonOf(record, firstAction(record, model.records))}</p>
      {record.calls.length > 0 && <Diagram record={record} />}
      {exchange !== null && <ExchangeView exchange={exchange} />}
    </article>
  )
}

/** Who takes part, where nothing has happened yet. */
const Overview = () => {
  const { addresses } = useStore().system
  return (
    <div class="overview">
      <p>
        music-backend is one API for the clients of a music companion. It promises two things: nothing
        accepted is ever lost or done twice, and nobody gets in who doesn’t belong. Try to break them. Each
        action shows here, with its request, its response and the calls between these, and so does each call
        of your own programs:
      </p>
      <dl class="parties">
        {participants.map((name) => (
          <div key={name}>
            <dt>{participantNames[name]}</dt>
            <dd>{participantRoles[name]}</dd>
            <dd class="soft">{name === "console" ? location.origin : addresses[name]}</dd>
          </div>
        ))}
      </dl>
      <p>Begin in Callers: press “Get SLT” beside an actor, then “Log in”.</p>
    </div>
  )
}

export const Journal = () => {
  const { change, model } = useStore()
  const shown = shownRecord(model)
  const isBehind = model.picked !== null && shown !== model.records[0]
  return (
    <Panel
      id="journal"
      note={
        isBehind ? (
          <button type="button" class="quiet" onClick={() => change({ kind: "pick", record: null })}>
            Show the newest
          </button>
        ) : (
          shown !== undefined && <span class="soft">newest first</span>
        )
      }
    >
      {shown === undefined ? (
        <Overview />
      ) : (
        <>
          <RecordList />
          <Shown record={shown} />
        </>
      )}
    </Panel>
  )
}
