/** The issue tracker as the backend needs it. Contract: issue-tracker.md. */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { Refused, UpstreamFailure } from "./UpstreamFailure.ts"

export interface Issue {
  readonly number: number
  readonly url: string
}

export interface FoundIssue extends Issue {
  readonly open: boolean
  /**
   * Written by the account that files now, or, where its token may not say which that is, by the author of the first.
   * Another's is of one that filed before, or somebody's copy: nobody can tell.
   */
  readonly own: boolean
}

export interface IssueDraft {
  /** At most 256 code points, already made harmless. */
  readonly title: string
  /** Already made harmless; carries the marker. */
  readonly body: string
}

/** More issues were created since the time asked for than one look reads. It concerns this look only: the tracker itself is well. */
export class LookTooLong extends Data.TaggedError("LookTooLong")<{ readonly reason: string }> {}

export interface TrackerService {
  readonly enabled: boolean
  /** Files one issue. Never repeats by itself: the API knows no idempotency key (issue-tracker.md 4). */
  readonly file: (draft: IssueDraft) => Effect.Effect<Issue, UpstreamFailure>
  /** Every issue, whoever wrote it, that carries the marker and was created at or after `since` (milliseconds), lowest number first. One clean, complete look, or a failure. */
  readonly findByMarker: (
    marker: string,
    since: number
  ) => Effect.Effect<ReadonlyArray<FoundIssue>, UpstreamFailure | LookTooLong>
  /**
   * Comments on a duplicate, naming the original, and closes it: two writes, a second apart. The closing comes last, so that a closed
   * one needs nothing more. One that takes no comment is closed all the same, and why it took none is told.
   */
  readonly closeDuplicate: (
    duplicate: Issue,
    original: Issue
  ) => Effect.Effect<Option.Option<Refused>, UpstreamFailure>
  /** What the last calls showed of token and repository; none while nothing was wrong. */
  readonly trouble: Effect.Effect<Option.Option<string>>
}

export class Tracker extends Context.Tag("music/Tracker")<Tracker, TrackerService>() {}
