/** The six steps of the guided tour. Each is done when the person has really done it. */
import type { Action, ActionRecord } from "../Protocol.ts"
import { firstAction } from "./Store.ts"
import { errorCode, isReplay, isSuccess, wasDelivered } from "./Outcome.ts"

export interface TourStep {
  readonly title: string
  /** What to do. */
  readonly task: string
  /** What it showed, once it is done. */
  readonly meaning: string
  /** Ids of the panels in which it happens, in the order of use. */
  readonly places: ReadonlyArray<string>
  readonly isDoneBy: (record: ActionRecord, action: Action) => boolean
}

const metLostAnswer = ({ calls }: ActionRecord) => calls.some(({ fault }) => fault === "lost")

export const tourSteps: ReadonlyArray<TourStep> = [
  {
    title: "Log in",
    task: "In Callers, press “Get SLT” beside si:deejay. IAM issues a token that is valid once, for two minutes. Then press “Log in”.",
    meaning: "You have a session. What happened shows each call that the login needed, and when.",
    places: ["callers"],
    isDoneBy: (record, action) => action.kind === "login" && isSuccess(record)
  },
  {
    title: "Send a ting",
    task: "A ting is a notification. In Do, press “Send ting”, and watch the inbox on the other side.",
    meaning: "It arrived live. IAM proved to Ting that the service may send it on behalf of the actor.",
    places: ["do", "world"],
    isDoneBy: (record, action) => action.kind === "ting" && isSuccess(record) && !isReplay(record)
  },
  {
    title: "Send it again",
    task: "A client that missed the answer repeats its request. In What happened, press “Send again”.",
    meaning: "The answer says replayed, and the inbox still has it once: nothing is done twice.",
    places: ["journal"],
    isDoneBy: (record, action) => action.kind === "ting" && isReplay(record)
  },
  {
    title: "Lose an answer",
    task: "In Faults, press “Add fault”: IAM’s next answer will be lost after IAM has committed. Then press “Refresh” in Callers.",
    meaning:
      "IAM had already spent the old token. The retry under the same key got the same new session: nothing is lost.",
    places: ["faults", "callers"],
    isDoneBy: (record, action) => action.kind === "refresh" && isSuccess(record) && metLostAnswer(record)
  },
  {
    title: "Play the thief",
    task: "The refresh left a spent token behind. In Callers, press “Reuse spent”: the same token under a new key.",
    meaning:
      "That is how a thief would come, so IAM ended the whole login: nobody gets in who doesn’t belong.",
    places: ["callers"],
    isDoneBy: (record, action) => action.kind === "reuseRefresh" && errorCode(record) === "unauthenticated"
  },
  {
    title: "Report a bug",
    task: "In Do, choose Report and press “Send report”. Reports matter most when things break, so no login is needed.",
    meaning: "It was stored before the answer and filed afterwards as an issue. Accepted means kept.",
    places: ["do", "world"],
    isDoneBy: (record, action) =>
      action.kind === "report" && isSuccess(record) && wasDelivered(record, "tracker")
  }
]

/** Whether an action since the step's begin has done it. */
export const isStepDone = (step: TourStep, since: number, records: ReadonlyArray<ActionRecord>): boolean =>
  records.some(
    (record) =>
      record.startedAt >= since &&
      record.endedAt !== null &&
      step.isDoneBy(record, firstAction(record, records))
  )
