import * as Context from "effect/Context"

/** What a host adds to the documentation page: the sandbox, forms that send the calls. */
export interface DocsAddition {
  readonly script: string
  readonly style: string
  /** Sources for `connect-src` of the page's Content-Security-Policy. */
  readonly connectSources: ReadonlyArray<string>
}

/** The service itself adds nothing. */
export class AddedToDocs extends Context.Reference<AddedToDocs>()("music/http/AddedToDocs", {
  defaultValue: (): DocsAddition | undefined => undefined
}) {}
