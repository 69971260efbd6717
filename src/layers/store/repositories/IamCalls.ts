import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { IamCalls } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { all, run } from "../Query.ts"

const Calls = Schema.parseJson(Schema.Array(Schema.Struct({ window: Schema.String, freeAt: Schema.Number })))
const Row = Schema.Struct({ calls: Calls })

export const makeIamCalls = ({ sql, write }: Database): IamCalls => ({
  leave: (id, calls) =>
    write("IamCalls.leave", () =>
      run(sql`
        INSERT INTO iam_calls (id, calls) VALUES (${id}, ${JSON.stringify(calls)})
        ON CONFLICT (id) DO NOTHING`)
    ),
  take: () =>
    Effect.map(
      write("IamCalls.take", () => all(Row)(sql`DELETE FROM iam_calls RETURNING calls`)),
      (rows) => rows.flatMap(({ calls }) => calls)
    )
})
