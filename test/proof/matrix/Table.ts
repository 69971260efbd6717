/**
 * What the documents promise for every operation, path and failure, written by hand from docs/api.md, docs/durability.md and docs/contracts.
 *
 * A cell: the answer, `×` the calls to the failing path, `(other path ×n)` where another path is called more than once, what is left behind,
 * and after `→` the answer to the same request when the failure is over, where that is no success.
 */
import type { WorkName } from "./Background.ts"
import type { Failure } from "./Failures.ts"
import type { CallName } from "../../world/Calls.ts"
import type { PathName, UpstreamName } from "../../world/Faults.ts"

/** By failure or by group of failures; a failure's own entry comes first. */
type Cells = Readonly<Record<string, string>>

export interface Column {
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

const unavailable = "503 dependency_unavailable"

/** api.md, "Refusals of IAM" and "Retries". */
const iam: Cells = {
  refused: `${unavailable} ×3`,
  silent: `${unavailable} ×3`,
  "silent†": `${unavailable} ×3`,
  broken: `${unavailable} ×3`,
  "broken†": `${unavailable} ×3`,
  busy: `${unavailable}, 5 s ×3`,
  later: `${unavailable}, 5 s ×3`,
  "later†": `${unavailable}, 5 s ×3`,
  limit: "429 rate_limited, 7 s ×1",
  "limit bare": "429 rate_limited, 1 s ×1",
  "limit long": "429 rate_limited, 60 s ×1",
  "own credential": "502 dependency_misconfigured ×1",
  forbidden: "403 forbidden ×1",
  odd: `${unavailable} ×1`,
  idempotency_conflict: "409 idempotency_conflict ×1",
  idempotency_in_progress: "409 idempotency_in_progress, 1 s ×9",
  idempotency_response_expired: "409 idempotency_response_expired ×1"
}

/** The polls of one credential use up its calls of a minute (api.md, "The budget for IAM"). */
const polledWithinBudget: Cells = { idempotency_in_progress: "429 rate_limited, 46 s ×8" }

/** api.md, "Refusals of IAM": on a proof exchange, and the list of Ting's endpoints. */
const proof: Cells = {
  ...iam,
  "401 invalid_client": "502 dependency_misconfigured ×1 (catalogue ×2)",
  "404 not_found": "403 reconsent_required ×1 (catalogue ×2)",
  invalid_subject_token: "401 unauthenticated ×1"
}
const endpoints: Cells = { ...iam, "404 not_found": "403 reconsent_required ×1" }

/** api.md, "Refusals of Ting": each attempt has a proof of its own. */
const ting: Cells = {
  refused: `${unavailable} ×3 (proof ×3)`,
  // A call to Ting may take 15 s of the request's 25.
  silent: `${unavailable} ×2 (proof ×2)`,
  "silent†": `${unavailable} ×2 (proof ×2)`,
  broken: `${unavailable} ×3 (proof ×3)`,
  "broken†": `${unavailable} ×3 (proof ×3)`,
  busy: `${unavailable}, 5 s ×3 (proof ×3)`,
  later: `${unavailable}, 5 s ×3 (proof ×3)`,
  "later†": `${unavailable}, 5 s ×3 (proof ×3)`,
  limit: "429 temporarily_rate_limited, 7 s ×1",
  "limit bare": "429 temporarily_rate_limited, 1 s ×1",
  "limit long": "429 temporarily_rate_limited, 3600 s ×1",
  proof: `${unavailable} ×3 (proof ×3)`,
  "own credential": "502 dependency_misconfigured ×1",
  invalid_input: "400 invalid_input ×1",
  permission_denied: "403 permission_denied ×1",
  test_context_mismatch: "403 test_context_mismatch ×1",
  recipient_not_registered: "403 recipient_not_registered ×1",
  required_delivery_not_enabled: "403 required_delivery_not_enabled ×1",
  not_found: "404 not_found ×1",
  idempotency_conflict: "409 idempotency_conflict ×1",
  payload_too_large: "413 payload_too_large ×1"
}

/** A failed registration never fails the login: 2 attempts and 5 s in all. A repetition tries again after a transient failure only. */
const failedFor = (code: string, calls: string): string => `200 ting.error ${code} ${calls}`
const recordedFor = (code: string, calls: string): string =>
  `200 ting.error ${code} ${calls}; spent → 200 ting.error ${code}`

/** The list is fetched at the begin of a login, and again by each attempt to register. */
const loginEndpoints: Cells = {
  refused: failedFor("dependency_unavailable", "×3"),
  silent: failedFor("dependency_unavailable", "×1"),
  broken: failedFor("dependency_unavailable", "×3"),
  busy: failedFor("dependency_unavailable", "×3"),
  later: failedFor("dependency_unavailable", "×3"),
  limit: failedFor("rate_limited", "×1"),
  "limit bare": failedFor("rate_limited", "×1"),
  "limit long": failedFor("rate_limited", "×1"),
  odd: failedFor("dependency_unavailable", "×2")
}
const loginProof: Cells = {
  refused: failedFor("dependency_unavailable", "×2"),
  silent: failedFor("dependency_unavailable", "×1"),
  "silent†": failedFor("dependency_unavailable", "×1"),
  broken: failedFor("dependency_unavailable", "×2"),
  "broken†": failedFor("dependency_unavailable", "×2"),
  busy: failedFor("dependency_unavailable", "×2"),
  later: failedFor("dependency_unavailable", "×2"),
  "later†": failedFor("dependency_unavailable", "×2"),
  limit: failedFor("rate_limited", "×1"),
  "limit bare": failedFor("rate_limited", "×1"),
  "limit long": failedFor("rate_limited", "×1"),
  odd: failedFor("dependency_unavailable", "×1"),
  idempotency_in_progress: failedFor("idempotency_in_progress", "×6")
}
const loginRegister: Cells = {
  refused: failedFor("dependency_unavailable", "×2 (proof ×2)"),
  silent: failedFor("dependency_unavailable", "×1"),
  "silent†": failedFor("dependency_unavailable", "×1"),
  broken: failedFor("dependency_unavailable", "×2 (proof ×2)"),
  "broken†": failedFor("dependency_unavailable", "×2 (proof ×2)"),
  busy: failedFor("dependency_unavailable", "×2 (proof ×2)"),
  later: failedFor("dependency_unavailable", "×2 (proof ×2)"),
  "later†": failedFor("dependency_unavailable", "×2 (proof ×2)"),
  proof: failedFor("dependency_unavailable", "×2 (proof ×2)"),
  limit: failedFor("temporarily_rate_limited", "×1"),
  "limit bare": failedFor("temporarily_rate_limited", "×1"),
  "limit long": failedFor("temporarily_rate_limited", "×1")
}

/** api.md, "POST /api/v1/reports": a verdict on the token is the answer; everything else stores the report as unverified, after one call. */
const reporter: Cells = {
  ...Object.fromEntries(Object.keys(iam).map((group) => [group, "200 unverified ×1"])),
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

export const table: Partial<Readonly<Record<CallName, ReadonlyArray<Column>>>> = {
  login: [
    {
      path: "tokens",
      rules: { ...iam, ...polledWithinBudget, "their credential": "401 slt_rejected ×1" },
      before: "unspent",
      after: "spent",
      well: "200 ×1; spent, registered",
      second: "200 ×2; spent, registered"
    },
    {
      path: "introspect",
      rules: justIssued,
      before: "spent",
      after: "spent",
      well: "200 ×1; spent, registered",
      second: "200 ×2; spent, registered"
    },
    {
      path: "catalogue",
      rules: loginEndpoints,
      before: "spent",
      after: "spent",
      except: {
        "own credential": recordedFor("dependency_misconfigured", "×2"),
        forbidden: recordedFor("forbidden", "×2"),
        "404 not_found": recordedFor("reconsent_required", "×2")
      },
      well: "200 ×1; spent, registered",
      second: "200 ×2; spent, registered"
    },
    {
      path: "proof",
      rules: loginProof,
      before: "spent",
      after: "spent",
      except: {
        "401 invalid_client": recordedFor("dependency_misconfigured", "×1 (catalogue ×2)"),
        "own credential": recordedFor("dependency_misconfigured", "×1"),
        forbidden: recordedFor("forbidden", "×1"),
        "404 not_found": recordedFor("reconsent_required", "×1 (catalogue ×2)"),
        idempotency_conflict: recordedFor("idempotency_conflict", "×1"),
        idempotency_response_expired: recordedFor("idempotency_response_expired", "×1"),
        invalid_subject_token: recordedFor("unauthenticated", "×1")
      },
      well: "200 ×1; spent, registered",
      second: "200 ×2; spent, registered"
    },
    {
      path: "registration",
      rules: loginRegister,
      before: "spent",
      after: "spent, registered",
      except: {
        "own credential": recordedFor("dependency_misconfigured", "×1"),
        invalid_input: recordedFor("invalid_input", "×1"),
        permission_denied: recordedFor("permission_denied", "×1"),
        test_context_mismatch: recordedFor("test_context_mismatch", "×1"),
        payload_too_large: recordedFor("payload_too_large", "×1")
      },
      well: "200 ×1; spent, registered",
      second: "200 ×2 (proof ×2); spent, registered"
    }
  ],
  refresh: [
    {
      path: "tokens",
      rules: { ...iam, ...polledWithinBudget },
      before: "unspent",
      after: "spent",
      // A refresh token that IAM refused is refused for 10 minutes without a call.
      except: { "their credential": "401 unauthenticated ×1; unspent → 401 unauthenticated" },
      well: "200 ×1; spent",
      second: "200 ×2; spent"
    },
    {
      path: "introspect",
      rules: justIssued,
      before: "spent",
      after: "spent",
      well: "200 ×1; spent",
      second: "200 ×2; spent"
    }
  ],
  logout: [
    {
      path: "revoke",
      rules: { ...iam, ...polledWithinBudget, idempotency_response_expired: "204 ×1" },
      before: "live",
      after: "ended",
      well: "204 ×1; ended",
      second: "204 ×2; ended"
    }
  ],
  me: [{ ...read("introspect"), rules: iam, except: refusedAgain }],
  "me in a testing environment": [
    {
      ...read("context"),
      rules: iam,
      // A testing secret that IAM refused is refused for 30 s without a call.
      except: { "own credential": "401 testing_secret_invalid ×1 → 401 testing_secret_invalid" }
    },
    {
      ...read("introspect"),
      rules: { ...iam, "401 unauthenticated": "401 testing_secret_invalid ×1" },
      except: refusedAgain
    }
  ],
  "iam in a testing environment": [
    {
      ...read("context"),
      rules: iam,
      except: { "own credential": "401 testing_secret_invalid ×1 → 401 testing_secret_invalid" }
    }
  ],
  subscription: [
    { ...read("introspect", "200 ×1; registered"), rules: iam, except: refusedAgain },
    { ...read("catalogue", "200 ×1; registered"), rules: endpoints },
    { ...read("proof", "200 ×1; registered"), rules: proof },
    {
      path: "registration",
      rules: ting,
      before: "",
      after: "registered, unrecorded",
      well: "200 ×1; registered",
      second: "200 ×2 (proof ×2); registered"
    }
  ],
  ting: [
    { ...read("introspect", "200 ×1; delivered"), rules: iam, except: refusedAgain },
    { ...read("catalogue", "200 ×1; delivered"), rules: endpoints },
    { ...read("proof", "200 ×1; delivered"), rules: proof },
    {
      path: "ting",
      rules: ting,
      before: "",
      after: "delivered",
      well: "200 ×1; delivered",
      second: "200 ×2 (proof ×2); delivered"
    }
  ],
  "report with a bearer": [
    {
      path: "introspect",
      rules: reporter,
      before: "stored",
      after: "stored",
      except: {
        forbidden: "403 forbidden ×1; not stored",
        inactive: "401 unauthenticated ×1; not stored → 401 unauthenticated"
      },
      well: "200 ×1; stored",
      second: ""
    }
  ]
}

/** What the contract of a background path leaves behind at the end of 35 s (durability.md, issue-tracker.md 3 and 4, table-service.md 7). */
export interface WorkColumn {
  readonly path: PathName
  readonly cells: Cells
}

/** A search fails as the send does: the report stays unknown, and nothing is sent again. */
const search = (beside: (searches: number) => string): Cells => {
  const unknown = (searches: number) => `unknown ×${searches} (${beside(searches)})`
  const stopped = `unknown, stopped ×1 (${beside(1)})`
  return {
    refused: unknown(5),
    silent: `leased ×2 (${beside(2)})`,
    broken: unknown(5),
    "302": stopped,
    "302 †": stopped,
    later: unknown(4),
    limit: unknown(4),
    "limit bare": unknown(1),
    "limit long": unknown(1),
    "own credential": stopped,
    permission: stopped,
    content: unknown(5),
    clock: `delivered ×1 (${beside(1)})`
  }
}

/** Where the token may not read its account, the author of the lowest number counts as its account. */
const notDisclosed = "delivered ×1 (create ×1, list ×1)"

const shipping = (records: number): Cells => ({
  refused: `waiting ${records} ×6`,
  silent: `waiting ${records} ×3`,
  "silent†": `waiting ${records} ×3`,
  broken: `waiting ${records} ×6`,
  "broken†": `waiting ${records} ×6`,
  later: `waiting ${records} ×5`,
  "later†": `waiting ${records} ×5`,
  limit: `waiting ${records} ×5`,
  "limit bare": `waiting ${records} ×6`,
  "limit long": `waiting ${records} ×1`,
  // A batch is halved until each record is refused by itself.
  batch: `refused ${records} ×${2 * records - 1}`,
  clock: `delivered ${records} ×1`
})

export const works: Readonly<Record<WorkName, ReadonlyArray<WorkColumn>>> = {
  "report delivery": [
    {
      path: "create",
      cells: {
        // Nothing was sent: again after 1, 2, 4, 8 and 16 s, each time after a search.
        refused: "waiting ×6 (list ×5)",
        // 5 and 15 s after the send the tracker is searched; the third search, and a second send, come later.
        silent: "unknown ×1 (list ×2)",
        "silent†": "delivered ×1 (list ×1)",
        broken: "unknown ×1 (list ×2)",
        "broken†": "delivered ×1 (list ×1)",
        "302": "waiting, stopped ×1",
        "302 †": "waiting, stopped ×1",
        later: "unknown ×1 (list ×2)",
        "later†": "delivered ×1 (list ×1)",
        limit: "waiting ×5 (list ×4)",
        "limit bare": "waiting ×1",
        "limit long": "waiting ×1",
        "own credential": "waiting, stopped ×1",
        permission: "waiting, stopped ×1",
        content: "failed ×1 → failed",
        // Once more, with a shorter text.
        "too long": "failed ×2 (list ×1) → failed",
        clock: "delivered ×1"
      }
    }
  ],
  "search after a lost answer": [
    { path: "list", cells: search(() => "create ×1") },
    {
      path: "user",
      cells: {
        ...search((searches) => `create ×1, list ×${searches}`),
        "302": notDisclosed,
        "302 †": notDisclosed,
        permission: notDisclosed,
        content: notDisclosed
      }
    }
  ],
  duplicates: [
    {
      path: "comment",
      cells: {
        refused: "waiting ×6 (create ×2, list ×9)",
        silent: "leased ×3 (create ×2, list ×6)",
        "silent†": "leased ×3 (create ×2, list ×6)",
        broken: "waiting ×6 (create ×2, list ×9)",
        "broken†": "waiting ×6 (create ×2, list ×9)",
        // A comment is a courtesy: its answer is not read, and its refusal is logged.
        "truncated JSON †": "delivered ×1 (create ×2, list ×4)",
        "wrong types †": "delivered ×1 (create ×2, list ×4)",
        "302": "delivered ×1 (create ×2, list ×4)",
        "302 †": "delivered ×1 (create ×2, list ×4)",
        later: "waiting ×6 (create ×2, list ×9)",
        "later†": "waiting ×6 (create ×2, list ×9)",
        limit: "waiting ×5 (create ×2, list ×8)",
        "limit bare": "waiting ×1 (create ×2, list ×4)",
        "limit long": "waiting ×1 (create ×2, list ×4)",
        "own credential": "waiting, stopped ×1 (create ×2, list ×4)",
        permission: "delivered ×1 (create ×2, list ×4)",
        content: "delivered ×1 (create ×2, list ×4)",
        clock: "delivered ×1 (create ×2, list ×4)"
      }
    },
    {
      path: "close",
      cells: {
        refused: "waiting ×6 (create ×2, list ×9)",
        silent: "leased ×3 (create ×2, list ×6)",
        "silent†": "delivered ×1 (create ×2, list ×5)",
        broken: "waiting ×6 (create ×2, list ×9)",
        "broken†": "delivered ×1 (create ×2, list ×5)",
        // An issue that cannot be closed is skipped, and its sweep is listed as failed.
        "302": "failed ×1 (create ×2, list ×4) → failed",
        "302 †": "failed ×1 (create ×2, list ×4) → failed",
        later: "waiting ×5 (create ×2, list ×8)",
        "later†": "delivered ×1 (create ×2, list ×5)",
        limit: "waiting ×5 (create ×2, list ×8)",
        "limit bare": "waiting ×1 (create ×2, list ×4)",
        "limit long": "waiting ×1 (create ×2, list ×4)",
        "own credential": "waiting, stopped ×1 (create ×2, list ×4)",
        permission: "failed ×1 (create ×2, list ×4) → failed",
        content: "failed ×1 (create ×2, list ×4) → failed",
        clock: "delivered ×1 (create ×2, list ×4)"
      }
    }
  ],
  telemetry: [{ path: "ingest", cells: shipping(3) }],
  "own telemetry": [{ path: "ingest", cells: shipping(1) }]
}

export const workCellOf = (
  { cells }: WorkColumn,
  { group, id }: Pick<Failure, "group" | "id">
): string | undefined => cells[id] ?? cells[group]

/** What a whole upstream's failure leads to, where the operation needs it. */
export const whole: Partial<Readonly<Record<CallName, Partial<Readonly<Record<UpstreamName, Cells>>>>>> = {
  login: {
    iam: {
      // The list of Ting's endpoints is fetched beside the login.
      refused: `${unavailable} ×4; unspent`,
      silent: `${unavailable} ×4; unspent`,
      broken: `${unavailable} ×4; unspent`,
      clock: recordedFor("dependency_misconfigured", "×5")
    },
    ting: {
      refused: "200 ting.error dependency_unavailable ×2 (proof ×2); spent",
      silent: "200 ting.error dependency_unavailable ×1; spent",
      broken: "200 ting.error dependency_unavailable ×2 (proof ×2); spent",
      clock: "200 ×1; spent, registered"
    }
  },
  refresh: {
    iam: {
      refused: `${unavailable} ×3; unspent`,
      silent: `${unavailable} ×3; unspent`,
      broken: `${unavailable} ×3; unspent`,
      clock: "200 ×2; spent"
    }
  },
  logout: {
    iam: {
      refused: `${unavailable} ×3; live`,
      silent: `${unavailable} ×3; live`,
      broken: `${unavailable} ×3; live`,
      clock: "204 ×1; ended"
    }
  },
  me: { iam: { ...iam, clock: "200 ×1" } },
  "me in a testing environment": { iam: { ...iam, clock: "200 ×2" } },
  "iam in a testing environment": { iam: { ...iam, clock: "200 ×1" } },
  subscription: {
    iam: { ...iam, clock: "502 dependency_misconfigured ×4" },
    ting: { ...ting, clock: "200 ×1; registered" }
  },
  ting: {
    iam: { ...iam, clock: "502 dependency_misconfigured ×4" },
    ting: { ...ting, clock: "200 ×1; delivered" }
  },
  "report with a bearer": {
    iam: {
      refused: "200 unverified ×1; stored",
      silent: "200 unverified ×1; stored",
      broken: "200 unverified ×1; stored",
      clock: "200 ×1; stored"
    }
  }
}

/** The answer where the failing upstream is not needed. */
export const unaffected: Readonly<Record<CallName, string>> = {
  login: "200 ×0; spent, registered",
  refresh: "200 ×0; spent",
  logout: "204 ×0; ended",
  me: "200 ×0",
  "me in a testing environment": "200 ×0",
  "iam in a testing environment": "200 ×0",
  subscription: "200 ×0; registered",
  ting: "200 ×0; delivered",
  "report with a bearer": "200 ×0; stored",
  "report without a bearer": "200 ×0; stored",
  telemetry: "204 ×0; waiting 1",
  webhook: "200 ×0",
  iam: "200 ×0",
  version: "200 ×0",
  healthz: "200 ×0",
  readyz: "200 ×0"
}

export const wholeCellOf = (
  operation: CallName,
  upstream: UpstreamName,
  group: string
): string | undefined => {
  const cells = whole[operation]?.[upstream]
  return cells === undefined ? unaffected[operation] : cells[group]
}

const withState = (cell: string, state: string): string => (state === "" ? cell : `${cell}; ${state}`)

/** The cell of a failure; undefined when the table has none, which is a fault of the table. */
export const cellOf = (column: Column, { group, id }: Pick<Failure, "group" | "id">): string | undefined => {
  if (group === "clock") return column.well
  const exception = column.except?.[id] ?? column.except?.[group]
  if (exception !== undefined) return exception
  const rule = column.rules[id] ?? column.rules[group]
  return rule === undefined ? undefined : withState(rule, group.endsWith("†") ? column.after : column.before)
}

/** Whether the failing call is repeated, so that the request succeeds when only the first call fails. */
export const isRepeated = (cell: string): boolean => /×[2-9]/.test(cell.replace(/ \(.*?\)/, ""))
