/** Revocation of a token or of its whole family (identity-service.md 7). */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { IamService } from "../../services/Iam.ts"
import { expect, type Read } from "../upstream/Answer.ts"
import type { PlaneCall } from "./IamCall.ts"
import { only } from "./Shapes.ts"

/** A body shows that somebody else answered. */
const readNothing: Read<void> = ({ body }) => expect(body.length === 0, "has a body")

export const makeRevocation = (call: PlaneCall): IamService["revoke"] =>
  Effect.fn("Iam.revoke")((plane, token, key) =>
    Effect.suspend(() => {
      const value = Redacted.value(token)
      return call(plane, {
        operation: "revoke",
        method: "POST",
        path: "/oauth/revoke",
        key,
        form: {
          token: value,
          token_type_hint: value.startsWith("ort_") ? "refresh_token" : "access_token"
        },
        read: only(200, readNothing)
      })
    })
  )
