/**
 * What the documents promise for every operation, path and failure, written by hand from docs/api.md, docs/durability.md and docs/contracts.
 *
 * A cell: the answer, `×` the calls to the failing path, `(other path ×n)` where another path is called more than once, what is left behind,
 * and after `→` the answer to the same request when the failure is over, where that is no success.
 */
import type { Failure } from "./Failures.ts"
import type { CallName } from "../../world/Calls.ts"
import type { PathName } from "../../world/Faults.ts"

/** By failure or by group of failures; a failure's own entry comes first. */
type Cells = Readonly<Record<string, string>>

interface Column {
  readonly path: PathName
  /** The answer and the calls, by rule. */
  readonly rules: Cells
  /** What is left behind when the upstream has not done its work, and when it has. */
  readonly before: string
  readonly after: string
  /** The whole cell, where the rule and the state do not say it. */
  readonly except?: Cells
  /** The whole cell when only a clock is wrong, and when only the first call fails and is repeated. */
  readonly well: string
  readonly second: string
}

/** The same cell for several groups. */
const sameFor = (groups: ReadonlyArray<string>, cell: string): Cells =>
  Object.fromEntries(groups.map((group) => [group, cell]))

const unavailable = "503 dependency_unavailable"

/** api.md, "Refusals of IAM" and "Retries". */
const iam: Cells = {
  refused: `${unavailable} ×3`,
  silent: `${unavailable} ×3`,
  broken: `${unavailable} ×3`,
  busy: `${unavailable}, 5 s ×3`,
  later: `${unavailable}, 5 s ×3`,
  limit: "429 rate_limited, 7 s ×1",
  "limit bare": "429 rate_limited, 1 s ×1",
  "limit long": "429 rate_limited, 60 s ×1",
  "own credential": "502 dependency_misconfigured ×1",
  forbidden: "403 forbidden ×1",
  odd: `${unavailable} ×1`,
  "in progress": `${unavailable} ×3`,
  idempotency_conflict: "409 idempotency_conflict ×1",
  idempotency_in_progress: "409 idempotency_in_progress, 1 s ×3",
  idempotency_response_expired: "409 idempotency_response_expired ×1"
}

/** api.md, "Refusals of IAM": on a proof exchange, and the list of Ting's endpoints. */
const proof: Cells = {
  ...iam,
  "401 invalid_client": "502 dependency_misconfigured ×1",
  "404 not_found": "403 reconsent_required ×1",
  // No two proofs share a key.
  ...sameFor(["idempotency_conflict", "idempotency_response_expired"], `${unavailable} ×1`),
  idempotency_in_progress: `${unavailable} ×3`,
  // The access token is refused for 30 s without a call.
  invalid_subject_token: "401 unauthenticated ×1 → 401 unauthenticated"
}
const endpoints: Cells = { ...iam, "404 not_found": "403 reconsent_required ×1" }

/** api.md, "Refusals of Ting": each attempt has a proof of its own. */
const ting: Cells = {
  refused: `${unavailable} ×3 (proof ×3)`,
  // A call to Ting may take 15 s of the request's 25.
  silent: `${unavailable} ×2 (proof ×2)`,
  broken: `${unavailable} ×3 (proof ×3)`,
  busy: `${unavailable}, 5 s ×3 (proof ×3)`,
  later: `${unavailable}, 5 s ×3 (proof ×3)`,
  limit: "429 temporarily_rate_limited, 7 s ×1",
  "limit bare": "429 temporarily_rate_limited, 1 s ×1",
  "limit long": "429 temporarily_rate_limited, 3600 s ×1",
  proof: `${unavailable} ×3 (proof ×3)`,
  "own credential": "502 dependency_misconfigured ×1",
  odd: `${unavailable} ×1`,
  invalid_input: "400 invalid_input ×1",
  permission_denied: "403 permission_denied ×1",
  test_context_mismatch: "403 test_context_mismatch ×1",
  recipient_not_registered: "403 recipient_not_registered ×1",
  required_delivery_not_enabled: "403 required_delivery_not_enabled ×1",
  not_found: "404 not_found ×1",
  idempotency_conflict: "409 idempotency_conflict ×1",
  payload_too_large: "413 payload_too_large ×1"
}

/** A failed registration never fails the login: it has 5 s in all. A repetition tries again after a transient failure only. */
const failedFor = (code: string, calls: string): string => `200 ting.error ${code} ${calls}`
const recordedFor = (code: string, calls: string): string =>
  `200 ting.error ${code} ${calls}; spent → 200 ting.error ${code}`

/** Under its own code, after one call. */
const recordedAs = (...codes: ReadonlyArray<string>): Cells =>
  Object.fromEntries(codes.map((code) => [code, recordedFor(code, "×1")]))

const registering = (repeated: string, limit: string): Cells => ({
  silent: failedFor("dependency_unavailable", "×1"),
  ...sameFor(["refused", "broken", "busy", "later"], failedFor("dependency_unavailable", repeated)),
  ...sameFor(["limit", "limit bare", "limit long"], failedFor(limit, "×1"))
})
const loginEndpoints: Cells = {
  ...registering("×3", "rate_limited"),
  odd: failedFor("dependency_unavailable", "×1")
}
const loginProof: Cells = {
  ...registering("×3", "rate_limited"),
  ...sameFor(
    ["odd", "idempotency_conflict", "idempotency_response_expired"],
    failedFor("dependency_unavailable", "×1")
  ),
  idempotency_in_progress: failedFor("dependency_unavailable", "×3")
}
const loginRegister: Cells = {
  ...registering("×3 (proof ×3)", "temporarily_rate_limited"),
  proof: failedFor("dependency_unavailable", "×3 (proof ×3)"),
  odd: failedFor("dependency_unavailable", "×1")
}

/** api.md, "POST /api/v1/reports": a verdict on the token is the answer; everything else stores the report as unverified, within 3 s. */
const reporter: Cells = {
  ...sameFor(Object.keys(iam), "200 unverified ×1"),
  ...sameFor(["refused", "broken", "busy", "later", "in progress"], "200 unverified ×3"),
  forbidden: "403 forbidden ×1",
  inactive: "401 unauthenticated ×1"
}

/** An inactive answer about a token that was just issued is no verdict. */
const justIssued: Cells = { ...iam, inactive: `${unavailable} ×3` }
/** A token that IAM called inactive is refused for 30 s without a call. */
const refusedAgain: Cells = { inactive: "401 unauthenticated ×1 → 401 unauthenticated" }

const read = (path: PathName, well = "200 ×1"): Omit<Column, "rules"> => ({
  path,
  before: "",
  after: "",
  well,
  second: well.replace("×1", "×2")
})

/** A testing secret that IAM refused is refused for 30 s without a call. */
const selecting: Column = {
  ...read("context"),
  rules: iam,
  except: { "own credential": "401 testing_secret_invalid ×1 → 401 testing_secret_invalid" }
}

const spending = (path: PathName, well: string, rules: Cells, more: Partial<Column> = {}): Column => ({
  ...read(path, well),
  rules,
  before: "spent",
  after: "spent",
  ...more
})
const ofLogin = (path: PathName, rules: Cells, more: Partial<Column> = {}): Column =>
  spending(path, "200 ×1; spent, registered", rules, more)

export const table: Partial<Readonly<Record<CallName, ReadonlyArray<Column>>>> = {
  login: [
    ofLogin("tokens", { ...iam, "their credential": "401 slt_rejected ×1" }, { before: "unspent" }),
    ofLogin("introspect", justIssued),
    ofLogin("catalogue", loginEndpoints, {
      except: {
        "own credential": recordedFor("dependency_misconfigured", "×1"),
        ...recordedAs("forbidden"),
        "404 not_found": recordedFor("reconsent_required", "×1")
      }
    }),
    ofLogin("proof", loginProof, {
      except: {
        "401 invalid_client": recordedFor("dependency_misconfigured", "×1"),
        "own credential": recordedFor("dependency_misconfigured", "×1"),
        ...recordedAs("forbidden"),
        "404 not_found": recordedFor("reconsent_required", "×1"),
        invalid_subject_token: recordedFor("unauthenticated", "×1")
      }
    }),
    ofLogin("registration", loginRegister, {
      after: "spent, registered",
      except: {
        "own credential": recordedFor("dependency_misconfigured", "×1"),
        ...recordedAs("invalid_input", "permission_denied", "test_context_mismatch", "payload_too_large")
      },
      second: "200 ×2 (proof ×2); spent, registered"
    })
  ],
  refresh: [
    spending("tokens", "200 ×1; spent", iam, {
      before: "unspent",
      // A refresh token that IAM refused is refused for 10 minutes without a call.
      except: { "their credential": "401 unauthenticated ×1; unspent → 401 unauthenticated" }
    }),
    spending("introspect", "200 ×1; spent", justIssued)
  ],
  logout: [
    {
      ...read("revoke", "204 ×1; ended"),
      rules: { ...iam, idempotency_response_expired: "204 ×1" },
      before: "live",
      after: "ended"
    }
  ],
  me: [{ ...read("introspect"), rules: iam, except: refusedAgain }],
  "me in a testing environment": [
    selecting,
    {
      ...read("introspect"),
      rules: {
        ...iam,
        "401 invalid_client": "401 testing_secret_invalid ×1",
        "401 unauthenticated": "401 testing_secret_invalid ×1"
      },
      except: refusedAgain
    }
  ],
  "iam in a testing environment": [selecting],
  subscription: [
    { ...read("introspect", "200 ×1; registered"), rules: iam, except: refusedAgain },
    { ...read("catalogue", "200 ×1; registered"), rules: endpoints },
    { ...read("proof", "200 ×1; registered"), rules: proof },
    {
      ...read("registration", "200 ×1; registered"),
      rules: ting,
      after: "registered, unrecorded",
      second: "200 ×2 (proof ×2); registered"
    }
  ],
  ting: [
    { ...read("introspect", "200 ×1; delivered"), rules: iam, except: refusedAgain },
    { ...read("catalogue", "200 ×1; delivered"), rules: endpoints },
    { ...read("proof", "200 ×1; delivered"), rules: proof },
    {
      ...read("ting", "200 ×1; delivered"),
      rules: ting,
      after: "delivered",
      second: "200 ×2 (proof ×2); delivered"
    }
  ],
  "report with a bearer": [
    {
      ...read("introspect", "200 ×1; stored"),
      rules: reporter,
      before: "stored",
      after: "stored",
      except: {
        forbidden: "403 forbidden ×1; not stored",
        inactive: "401 unauthenticated ×1; not stored → 401 unauthenticated"
      }
    }
  ]
}

/** An upstream that has done its work is the same as one that has not, where nothing else is written. */
const findCell = (cells: Cells, { group, id }: Pick<Failure, "group" | "id">): string | undefined =>
  cells[id] ?? cells[id.replace(" †", "")] ?? cells[group] ?? cells[group.replace("†", "")]

/** The cell of a failure; undefined when the table has none, which is a fault of the table. */
export const cellOf = (column: Column, failure: Pick<Failure, "group" | "id">): string | undefined => {
  if (failure.group === "clock") return column.well
  const rule = findCell(column.rules, failure)
  const state = failure.group.endsWith("†") ? column.after : column.before
  return (
    findCell(column.except ?? {}, failure) ??
    (rule === undefined || state === "" ? rule : `${rule}; ${state}`)
  )
}

/** Whether the failing call is repeated, so that the request succeeds when only the first call fails. */
export const isRepeated = (cell: string): boolean => /×[2-9]/.test(cell.replace(/ \(.*?\)/, ""))
