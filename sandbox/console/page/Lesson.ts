/** One plain sentence on what an action shows. */
import type { Action, ActionRecord, Call, FaultKind, ProgramCall } from "../Protocol.ts"
import { participantNames } from "./Names.ts"
import { errorCode, isOfTestingPlane, isReplay, isSuccess, wasDelivered } from "./Outcome.ts"

const refusals: Readonly<Record<string, string>> = {
  unauthenticated: "The token is not live, so it opens nothing.",
  slt_rejected: "An SLT is valid once and for two minutes; this one was used or is too old.",
  recipient_not_registered:
    "The recipient is not registered at Ting, so the ting was not accepted; log in again to register.",
  forbidden: "The login does not reach this organisation, or it reaches none.",
  invalid_input: "The request is wrong on its face, so it cost no upstream call.",
  not_found: "There is no such path, or the type of ting is not configured. Nothing was sent to Ting.",
  idempotency_conflict:
    "This key was used for something else before: nothing was done, and nothing was lost.",
  webhook_signature_invalid:
    "The signature does not fit the bytes, or is older than five minutes, so the event is not believed and changes nothing.",
  plane_mismatch:
    "The event belongs to a testing plane that this service has not met yet, so it was refused.",
  rate_limited: "Too many calls in a short time: nothing was done. Repeat it after the pause in Retry-After.",
  temporarily_rate_limited: "The upstream asked to wait. Nothing was done; repeat it after the pause.",
  reports_full: "No more reports can be stored now, and the caller knows it."
}

type Kind = Action["kind"]
type Sentences = Readonly<Partial<Record<Kind, string>>>

/** What an action shows that has gone well; a ting, a report and telemetry have sentences of their own. */
const successes: Sentences = {
  mint: "IAM issued an SLT: a token for one login within two minutes.",
  login: "IAM exchanged the single-use token for a session, and Ting registered the actor as a recipient.",
  me: "IAM was asked whether the token is live: a token that ended a second ago opens nothing.",
  refresh: "The refresh token was exchanged for a new pair; the old one is spent now.",
  replayRefresh:
    "The spent token under the key of its refresh is a retry, not a theft: the answer is the same pair.",
  reuseRefresh: "The token was accepted.",
  logout: "The token opens nothing now. A refresh token takes every token of its login with it.",
  webhook: "The signature fits the bytes, so the event is IAM's; it was committed before the answer."
}

const lessonOfReport = (record: ActionRecord): string => {
  const isTesting = isOfTestingPlane(record)
  if (isReplay(record))
    return `The same key and content again: the stored report answers${isTesting ? "" : ", and no second issue appears"}.`
  if (isTesting)
    return "The report was committed before the answer: it survives a crash. It is of a testing plane, so it is never filed."
  const filed = wasDelivered(record, "tracker")
    ? "and filed afterwards as an issue"
    : "and is filed in the background"
  return `The report was committed before the answer ${filed}: it survives a crash in between.`
}

const lessonOfTelemetry = (record: ActionRecord): string => {
  if (isOfTestingPlane(record))
    return "A testing plane records no telemetry, because the tables belong to production: the event was accepted and dropped."
  return wasDelivered(record, "tables")
    ? "The event was committed before the answer and shipped to its table afterwards."
    : "The event is committed. Background delivery ships it to its table."
}

const success = (record: ActionRecord, kind: Kind | null): string => {
  if (kind === "report") return lessonOfReport(record)
  if (kind === "telemetry") return lessonOfTelemetry(record)
  if (kind === null) return "The service answered: API docs has this call."
  if (kind !== "ting") return successes[kind] ?? ""
  return isReplay(record)
    ? "The same key again: Ting knew it, so the inbox has the ting once. Nothing is done twice."
    : "IAM issued a proof for exactly this request, and Ting put the ting into the recipient's inbox."
}

const repeatedSession =
  "The same request under the same key: the answer is the same session, and no second one was made."

/** What sending the same bytes again shows, where it is more than the first time. */
const repeated: Sentences = {
  login: repeatedSession,
  refresh: repeatedSession,
  logout: "The same request under the same key: it is logged out once, and the answer is the same.",
  telemetry: "The same event id again: its row is stored once.",
  webhook: "The same event id again: it is acknowledged and has no second effect."
}

/** Of actions that send nothing. */
const silent: Sentences = {
  addFault: "From now on this upstream misbehaves as chosen; try an action and watch the retries.",
  removeFault: "The upstream behaves again.",
  advanceClock: "The clock of the whole sandbox moved on: tokens age by as much."
}

/** What the service made of an injected fault; `null` without one. */
const overcome = (record: ActionRecord, calls: ReadonlyArray<Call>): string | null => {
  const met = calls.find(({ fault }) => fault !== null)
  if (met === undefined || met.fault === null) return null
  if (met.fault === "lost" && met.to === "tracker" && met.method === "POST")
    return "The tracker's answer was lost after it had filed the issue; a search for the report's marker finds it before anything is filed again. Nothing is done twice."
  const name = participantNames[met.to]
  const last = calls.findLast(({ path, to }) => to === met.to && path === met.path) ?? met
  if (isSuccess(record) && (last.status ?? 500) >= 400)
    return `${name} never answered as it should. The service did the rest without it, and its answer says what is missing.`
  const underKey = /tokens|revoke|exchanges|tings/.test(met.path) ? " under the same key" : ""
  const outcomes: Readonly<Record<FaultKind, readonly [fine: string, refused: string]>> = {
    lost: [
      `${name}'s answer was lost after it had committed; the retry${underKey} got the same result. Nothing is lost and nothing is done twice.`,
      `${name}'s answers were lost, so the caller does not know whether it happened; send it again under the same key to learn it safely.`
    ],
    down: [
      `${name} could not be reached at first; the retry got through.`,
      `${name} could not be reached, and the caller knows that nothing was accepted: send it again later.`
    ],
    slow: [
      `${name} was slow; the service waited within its deadline.`,
      `${name} was slower than the deadline allows; send it again under the same key.`
    ],
    rateLimited: [
      `${name} asked to wait; the retry got through.`,
      `${name} asked to wait; the pause is passed on to the caller in Retry-After.`
    ]
  }
  return outcomes[met.fault][isSuccess(record) ? 0 : 1]
}

/** Of a record whose original action is `action`. Empty while it lasts. */
export const lessonOf = (record: ActionRecord, action: Action | ProgramCall): string => {
  const kind = action.kind === "program" ? action.does : action.kind
  const quiet = kind === null ? undefined : silent[kind]
  if (quiet !== undefined) return quiet
  if (record.endedAt === null) return "Under way: the calls appear as they begin."
  const [later, immediate] = [true, false].map((isLater) =>
    overcome(
      record,
      record.calls.filter((call) => call.isLater === isLater)
    )
  )
  if (immediate) return immediate
  if (isSuccess(record)) {
    const again = record.action.kind === "repeat" && kind !== null ? repeated[kind] : undefined
    if (!later) return again ?? success(record, kind)
    return wasDelivered(record, "tracker") || wasDelivered(record, "tables")
      ? `The answer did not wait for delivery. ${later}`
      : "The answer did not wait for delivery: it is committed, and background delivery repeats until it arrives."
  }
  const code = errorCode(record)
  if (kind === "mint")
    return "IAM gives a Silicon a token only for its one organisation. Under Do and Webhook, send organization.silicon.created.v1 for it."
  if (kind === "reuseRefresh" && code === "unauthenticated")
    return "A spent token under a new key looks like a theft, so IAM ended every token of this login. Nobody gets in who doesn’t belong."
  if (record.exchange?.status === null) return "The connection was lost before an answer."
  return (
    (code === null ? undefined : refusals[code]) ??
    "The service refused; its answer says why, and what to do next."
  )
}
