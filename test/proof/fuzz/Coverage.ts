/** Which answers a run has seen. A generator that is always refused, or never, would prove nothing. */
import { operations } from "./Contract.ts"

/** Codes that input alone does not reach: they need a consent, a state of Ting, a race or a stop. */
const beyondInput = [
  "reconsent_required",
  "permission_denied",
  "test_context_mismatch",
  "temporarily_rate_limited",
  "recipient_not_registered",
  "required_delivery_not_enabled",
  "idempotency_in_progress",
  "idempotency_response_expired",
  "rate_limited"
]
/** The same for single calls. */
const beyondInputOf: Readonly<Record<string, ReadonlyArray<string>>> = {
  "auth.login": ["forbidden"],
  "auth.refresh": ["forbidden"],
  "auth.logout": ["forbidden"],
  "descriptors.iam": ["forbidden"],
  "telemetry.accept": ["forbidden"],
  "tings.subscribe": []
}
/** The least part of the valid requests of a call that succeed, of all its answers. */
const leastSuccess = 0.15

export class Coverage {
  private readonly cells = new Map<string, number>()

  note(operation: string, status: number, code: string | undefined): void {
    const cell = `${operation} ${status}${code === undefined ? "" : ` ${code}`}`
    this.cells.set(cell, (this.cells.get(cell) ?? 0) + 1)
  }

  get size(): number {
    return this.cells.size
  }

  lines(): ReadonlyArray<string> {
    return [...this.cells].sort().map(([cell, times]) => `${cell}: ${times}`)
  }

  /** Codes that input reaches and no call has answered; for a run that is too short for every call. */
  missingCodes(): ReadonlyArray<string> {
    const reachable = operations.flatMap(({ responses }) =>
      [...responses].flatMap(([status, { codes }]) => (status < 400 || status >= 500 ? [] : codes))
    )
    return [...new Set(reachable)]
      .filter((code) => !beyondInput.includes(code) || code === "rate_limited")
      .filter((code) => ![...this.cells.keys()].some((cell) => cell.endsWith(` ${code}`)))
      .map((code) => `no answer has ${code}`)
  }

  /** Calls that hardly succeed. */
  fewSuccesses(): ReadonlyArray<string> {
    return operations.flatMap(({ id }) => {
      const own = [...this.cells].filter(([cell]) => cell.startsWith(`${id} `))
      const sum = (cells: ReadonlyArray<readonly [string, number]>) =>
        cells.reduce((total, [, times]) => total + times, 0)
      const successes = sum(own.filter(([cell]) => cell.startsWith(`${id} 2`)))
      return successes < leastSuccess * sum(own) || successes === 0
        ? [`${id} has only ${successes} successes of ${sum(own)}`]
        : []
    })
  }

  /** Documented answers of each call that input reaches and the run has not seen. */
  missing(): ReadonlyArray<string> {
    return operations.flatMap(({ id, responses }) => {
      return [...responses].flatMap(([status, { codes }]) =>
        status < 400 || status >= 500
          ? []
          : codes
              .filter((code) => !beyondInput.includes(code) && !beyondInputOf[id]?.includes(code))
              .filter((code) => !this.cells.has(`${id} ${status} ${code}`))
              .map((code) => `${id} has no answer ${status} ${code}`)
      )
    })
  }
}
