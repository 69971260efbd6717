/** A reporter for vitest: a line for each failed test, in the order of their ends. The first failure cancels the other tests. */
import { appendFileSync, writeFileSync } from "node:fs"

const file = "planted.jsonl"

export default class Failures {
  onInit() {
    writeFileSync(file, "")
  }
  onTestCaseResult(test) {
    const { errors = [], state } = test.result()
    if (state !== "failed") return
    const messages = errors.map(({ message, name }) => `${name}: ${message}`)
    appendFileSync(file, `${JSON.stringify({ name: test.fullName, messages })}\n`)
  }
  onTestRunEnd() {
    appendFileSync(file, `${JSON.stringify("end")}\n`)
  }
}
