/** What a caller of IAM declares before a call. The share, the bounds and the window of the call follow from it. */
import type { PlaneId } from "../../../services/Plane.ts"

/** Below `/api/v1`. */
export type IamPath =
  | "/app-auth/tokens"
  | "/oauth/introspect"
  | "/oauth/revoke"
  | "/obo-access/exchanges"
  | "/application/testing-context"
  | `/obo-access/applications/${string}/endpoints`

export const introspectPath: IamPath = "/oauth/introspect"

/** What IAM counts together: a path in a plane. The plane of a testing secret is undefined until IAM resolves it. */
export interface Counted {
  readonly plane: PlaneId | undefined
  readonly path: IamPath
}

export interface Purpose {
  /** The credential of the call, as a key of `KnownCredentials`; none for the application's own calls. */
  readonly credential?: string
  /** `login` exchanges an SLT, which is never known before; `refresh` keeps a session; `session` ends one, or selects a plane. */
  readonly use?: "login" | "refresh" | "session"
  /** The call completes a login or refresh. Without it a session that IAM issued is lost. */
  readonly completing?: boolean
}
