/** The port of the issue tracker. Contract: issue-tracker.md. */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type { UpstreamFailure } from "./UpstreamFailure.ts"

export interface Issue {
  readonly number: number
  readonly url: string
}

export interface FoundIssue extends Issue {
  readonly open: boolean
}

export interface IssueDraft {
  /** At most 256 code points, neutralised. */
  readonly title: string
  /** Neutralised; contains the marker. */
  readonly body: string
}

/** More issues were created since the given time than one search reads. Concerns this search only: the tracker itself is healthy. */
export class SearchTooLong extends Data.TaggedError("SearchTooLong")<{ readonly reason: string }> {}

export interface TrackerService {
  readonly enabled: boolean
  /** Files one issue. Never retries: the API has no idempotency key (issue-tracker.md 4). */
  readonly file: (draft: IssueDraft) => Effect.Effect<Issue, UpstreamFailure>
  /**
   * All issues of the token's account that contain the marker and were created at or after `since` (milliseconds), lowest number first.
   * One complete search, or a failure. Issues of other accounts are copies.
   */
  readonly findByMarker: (
    marker: string,
    since: number
  ) => Effect.Effect<ReadonlyArray<FoundIssue>, UpstreamFailure | SearchTooLong>
  /**
   * Comments on a duplicate, naming the original, and closes it: two writes, a second apart. It is closed last, so that a closed
   * duplicate is complete. An issue that refuses the comment is closed too.
   */
  readonly closeDuplicate: (duplicate: Issue, original: Issue) => Effect.Effect<void, UpstreamFailure>
}

export class Tracker extends Context.Tag("music/Tracker")<Tracker, TrackerService>() {}
