import { describe, expect, it } from "vitest"
import { type Entry, Journal, recordOf } from "../../sandbox/console/Journal.ts"

const clock = { kind: "advanceClock", milliseconds: 1 } as const
const batch = {
  from: "backend",
  to: "tables",
  method: "POST",
  path: "/api/ingest",
  startedAt: 2,
  fault: null,
  isOwn: false
} as const

const traceIdOf = (journal: Journal, entry: Entry): string => journal.traceOf(entry).split("-")[1] ?? ""

describe("The journal", () => {
  it("attributes one background call to each action that made something in it, before or after the call", () => {
    const changed: Array<number> = []
    const journal = new Journal((id) => changed.push(id))
    const [one, other, third] = [1, 2, 3].map(() => journal.begin(clock, null, "An action", 1)) as [
      Entry,
      Entry,
      Entry
    ]
    journal.recordMade(one, "record-1")
    journal.recordCarried("trace", "record-1")
    journal.recordCarried("trace", "record-2")
    const end = journal.recordCall("trace", batch)
    // Its answer, which names the record, arrives after the delivery.
    journal.recordMade(other, "record-2")
    // A repeated action gets the same name: it has not made it.
    journal.recordMade(third, "record-2")
    changed.length = 0
    end(3, 200)
    expect(changed).toEqual([one.id, other.id])
    const arrow = { ...batch, endedAt: 3, status: 200, isLater: true }
    expect([one, other, third].map((entry) => recordOf(entry).calls)).toEqual([[arrow], [arrow], []])
  })

  it("marks the calls of the action's own trace as later once it has its answer", () => {
    const journal = new Journal(() => {})
    const entry = journal.begin(clock, null, "An action", 1)
    const trace = traceIdOf(journal, entry)
    journal.recordCall(trace, batch)
    entry.endedAt = 2
    journal.recordCall(trace, batch)
    expect(recordOf(entry).calls.map(({ isLater }) => isLater)).toEqual([false, true])
  })

  it("keeps 200 calls of an action", () => {
    const journal = new Journal(() => {})
    const entry = journal.begin(clock, null, "An action", 1)
    for (const trace of [traceIdOf(journal, entry), traceIdOf(journal, entry)])
      for (let count = 0; count < 150; count += 1) journal.recordCall(trace, batch)
    expect(recordOf(entry).calls).toHaveLength(200)
  })
})
