/** The six steps of the guided tour. Each is done when the person has really done it. */
import type { Action, ActionRecord, ProgramCall, Session } from "../Protocol.ts"
import type { Place } from "./Names.ts"
import { errorCode, isOfTestingPlane, isReplay, isSuccess, wasDelivered } from "./Outcome.ts"
import { firstAction } from "./Store.ts"

/** An action that has ended. */
interface Deed {
  readonly record: ActionRecord
  /** What was done first, when the record repeats it. */
  readonly action: Action | ProgramCall
  readonly sessions: ReadonlyArray<Session>
}

interface TourStep {
  readonly title: string
  /** What to do. */
  readonly task: string
  /** What it showed, once it is done. */
  readonly meaning: string
  /** Where it happens, in the order of use. */
  readonly places: ReadonlyArray<Place>
  readonly isDoneBy: (deed: Deed) => boolean
  /** Why another action has not done the step, and what to do; `null` when the task says it all. */
  readonly advice: (deed: Deed) => string | null
}

const metLostAnswer = ({ calls }: ActionRecord) => calls.some(({ fault }) => fault === "lost")

const isCompromised = ({ action, sessions }: Deed) =>
  action.kind === "reuseRefresh" &&
  sessions.some(({ id, status }) => id === action.session && status === "compromised")

export const tourSteps: ReadonlyArray<TourStep> = [
  {
    title: "Log in",
    task: "In Callers, press “Get SLT” beside si:deejay. IAM issues a token that is valid once, for two minutes. Then press “Log in”.",
    meaning: "You have a session. What happened shows each call that the login needed, and when.",
    places: ["callers"],
    isDoneBy: ({ action, record }) => action.kind === "login" && isSuccess(record),
    advice: ({ action }) =>
      action.kind === "mint"
        ? "The SLT is there. Press “Log in” beside it."
        : action.kind === "login"
          ? "That login was refused. Press “Get SLT” for a new token, then “Log in” within two minutes."
          : null
  },
  {
    title: "Send a ting",
    task: "A ting is a notification. In Do, press “Send ting”, and watch the inbox on the other side.",
    meaning: "It arrived live. IAM proved to Ting that the service may send it on behalf of the actor.",
    places: ["do", "world"],
    isDoneBy: ({ action, record }) => action.kind === "ting" && isSuccess(record) && !isReplay(record),
    advice: ({ action, record }) =>
      action.kind !== "ting"
        ? null
        : isReplay(record)
          ? "Ting already had a ting with this key, so nothing new arrived. Choose another key in Do, such as the next number, and press “Send ting”."
          : "That ting was refused: What happened says why. If the login is over, get an SLT and log in; then press “Send ting”."
  },
  {
    title: "Send it again",
    task: "A client that missed the answer repeats its request. Choose your ting in the list of What happened, or send one in Do. Then press “Send again” beside its name.",
    meaning: "The answer says replayed, and the inbox still has it once: nothing is done twice.",
    places: ["journal", "do"],
    isDoneBy: ({ action, record }) => action.kind === "ting" && isReplay(record),
    advice: ({ action, record }) =>
      action.kind !== "ting"
        ? record.action.kind === "repeat"
          ? "That repeated another action. Choose a ting in the list of What happened, or send one in Do, then press “Send again”."
          : null
        : isSuccess(record)
          ? "The ting was sent for the first time. Press “Send again” in What happened."
          : "That ting was refused, so there is nothing to replay. Log in again if the login is over, send a new ting in Do, then press “Send again”."
  },
  {
    title: "Lose an answer",
    task: "In Faults, press “Add fault”: IAM’s next answer will be lost after IAM has committed. Then press “Refresh” in the session’s card.",
    meaning:
      "IAM had already spent the old token. The retry under the same key got the same new session: nothing is lost.",
    places: ["faults", "sessions"],
    isDoneBy: ({ action, record }) => action.kind === "refresh" && isSuccess(record) && metLostAnswer(record),
    advice: ({ action, record }) =>
      action.kind === "refresh"
        ? metLostAnswer(record)
          ? "Every attempt lost its answer. Remove the fault, add one that happens once, then press “Refresh”."
          : isSuccess(record)
            ? "No fault met this refresh. In Faults choose IAM, POST /app-auth/tokens, “answer lost after commit”, press “Add fault”, then “Refresh”."
            : "This refresh was refused: its login is over. Log in again, add the fault, then press “Refresh”."
        : metLostAnswer(record)
          ? "Another action used the fault up. Press “Add fault” again, then “Refresh”."
          : null
  },
  {
    title: "Play the thief",
    task: "The refresh left a spent token behind. In the session’s card, press “Reuse spent”: the same token under a new key.",
    meaning:
      "That is how a thief would come, so IAM ended the whole login: nobody gets in who doesn’t belong.",
    places: ["sessions"],
    isDoneBy: (deed) => errorCode(deed.record) === "unauthenticated" && isCompromised(deed),
    advice: ({ action, record }) =>
      action.kind === "logout"
        ? "This login is over, so its tokens are dead. Log in again, press “Refresh”, then “Reuse spent”."
        : action.kind === "reuseRefresh"
          ? errorCode(record) === "unauthenticated"
            ? "The token was refused, but this login was over before. Log in again, press “Refresh”, then “Reuse spent”."
            : "IAM did not decide: What happened says why. Press “Reuse spent” again."
          : action.kind === "login" && isSuccess(record)
            ? "The new session has no spent token yet. Press “Refresh”, then “Reuse spent”."
            : null
  },
  {
    title: "Report a bug",
    task: "In Do, choose Report and press “Send report”. Reports matter most when things break, so no login is needed.",
    meaning: "It was stored before the answer and filed afterwards as an issue. Accepted means kept.",
    places: ["do", "world"],
    isDoneBy: ({ action, record }) =>
      action.kind === "report" && isSuccess(record) && wasDelivered(record, "tracker"),
    advice: ({ action, record }) =>
      action.kind !== "report"
        ? null
        : !isSuccess(record)
          ? "That report was refused: What happened says why. Send another one."
          : isOfTestingPlane(record)
            ? "That report is stored. It is of a testing plane, so it is never filed. Choose Production at the top, and send a report there."
            : isReplay(record)
              ? "That report was stored before, and no second issue appears. Press “Send report” in Do for a new one."
              : "That report is stored. It is filed in the background; while the tracker has a fault, that waits."
  }
]

/** What screen readers say when a step begins. */
export const announcementOf = (at: number): string => {
  const step = tourSteps[at]
  return step === undefined ? "" : `Step ${at + 1} of ${tourSteps.length}: ${step.title}. ${step.task}`
}

/** How far the actions since the step's begin have come. `records` is newest first. */
export const standingOf = (
  step: TourStep,
  since: number,
  records: ReadonlyArray<ActionRecord>,
  sessions: ReadonlyArray<Session>
) => {
  const deeds = records
    .filter(({ endedAt, startedAt }) => startedAt >= since && endedAt !== null)
    .map((record): Deed => ({ record, action: firstAction(record, records), sessions }))
  const [newest] = deeds
  return {
    isDone: deeds.some(step.isDoneBy),
    advice: newest === undefined ? null : step.advice(newest)
  }
}
