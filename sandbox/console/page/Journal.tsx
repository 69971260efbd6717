/** What happened: the actions, and the chosen one in full. */
import { useEffect, useRef } from "preact/hooks"
import type { ActionRecord } from "../Protocol.ts"
import { ActionButton, ProblemNote, useActing } from "./Acting.tsx"
import { Diagram } from "./Diagram.tsx"
import { ExchangeView } from "./ExchangeView.tsx"
import { curlOf, duration, responseText, timeOfDay } from "./Format.ts"
import { lessonOf } from "./Lesson.ts"
import { statusTone } from "./Names.ts"
import { Overview } from "./Overview.tsx"
import { Badge, CopyButton, Foreign, Panel } from "./Parts.tsx"
import { firstAction, shownRecord, useStore } from "./Store.ts"

export const ResultBadge = ({ record: { endedAt, exchange } }: { readonly record: ActionRecord }) => {
  if (endedAt === null) return <Badge tone="plain">…</Badge>
  if (exchange === null) return <Badge tone="plain">done</Badge>
  return <Badge tone={statusTone(exchange.status)}>{exchange.status ?? "no answer"}</Badge>
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
            <span class="grow" title={record.title}>
              <Foreign text={record.title} />
            </span>
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
          <ResultBadge record={record} /> <Foreign text={record.title} />
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
