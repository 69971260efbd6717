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
  "idempotency_response_expired"
]
/** Calls to which their own input never brings 403 `forbidden`. */
const neverForbidden = ["auth.login", "auth.refresh", "auth.logout", "descriptors.iam", "telemetry.accept"]
/** The least part of the answers to a call that are successes. */
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

  /** Documented answers that input reaches and the run has not seen; `each`: of each call, else of any. Calls that hardly succeed. */
  missing(each: boolean): ReadonlyArray<string> {
    const cells = [...this.cells]
    return operations.flatMap(({ id, responses }) => {
      const own = cells.filter(([cell]) => cell.startsWith(`${id} `))
      const sum = (some: typeof own) => some.reduce((total, [, times]) => total + times, 0)
      const successes = sum(own.filter(([cell]) => cell.startsWith(`${id} 2`)))
      const gaps = [...responses].flatMap(([status, { codes }]) =>
        (status < 400 || status >= 500 ? [] : codes)
          .filter(
            (code) => !beyondInput.includes(code) && !(code === "forbidden" && neverForbidden.includes(id))
          )
          .filter((code) => !(each && code === "rate_limited"))
          .filter((code) => !(each ? own : cells).some(([cell]) => cell.endsWith(`${status} ${code}`)))
          .map((code) => `${each ? id : "no call"} has no answer ${status} ${code}`)
      )
      const isPoor = successes === 0 || successes < leastSuccess * sum(own)
      return isPoor ? [...gaps, `${id} has only ${successes} successes of ${sum(own)}`] : gaps
    })
  }
}
