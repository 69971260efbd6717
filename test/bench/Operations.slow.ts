/** No call costs more operations than its committed number: they have no noise, so a change that makes a call dearer shows here. */
import { assert, it } from "vitest"
import { countedCalls, countOperations, readOperationTable } from "../../bench/Operations.ts"

/** Part by which a count may differ, for the work that a timer adds now and then. */
const tolerance = 0.03
const update = "npm run bench -- --operations"

it("spends no more operations on a call than the committed table says", async () => {
  const committed = readOperationTable()
  const quick = await countOperations({ repetitions: 5 })
  // On a busy machine every call of a few may meet a timer: more of them decide.
  const dearer = countedCalls.filter((call) => (quick.get(call) ?? 0) > committed[call] * (1 + tolerance))
  const counts = new Map([...quick, ...(await countOperations({ calls: dearer, repetitions: 40 }))])
  const differences = countedCalls.map((call) => ({
    call,
    part: (counts.get(call) ?? Number.NaN) / committed[call] - 1,
    text: `${call}: ${counts.get(call)} instead of ${committed[call]}`
  }))
  const cheaper = differences.filter(({ part }) => part < -tolerance)
  if (cheaper.length > 0)
    process.stderr.write(
      `Fewer operations than committed: run \`${update}\` (${cheaper.map(({ text }) => text).join("; ")})\n`
    )
  assert.deepEqual(
    differences.filter(({ part }) => !(part <= tolerance)).map(({ text }) => text),
    [],
    `More operations than committed. If that is intended, run \`${update}\``
  )
})
