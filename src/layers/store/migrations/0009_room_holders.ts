/**
 * The bytes that each signed-in reporter and each network of anonymous reports holds, and the order of anonymous reports. Triggers keep
 * the sums, like the total: they count what every version of the program writes, in the transaction that writes it.
 */
import { SqlClient } from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/** Of a signed-in reporter the plane and the name; of any other report no plane and its network, which older versions do not write. */
const planeOf = (row: string) => `CASE WHEN ${row}.reporter LIKE 'verified:%' THEN ${row}.plane ELSE '' END`
const holderOf = (row: string) =>
  `CASE WHEN ${row}.reporter LIKE 'verified:%' THEN ${row}.reporter ELSE ${row}.network END`

const add = "ON CONFLICT (plane, holder) DO UPDATE SET bytes = room_holders.bytes + excluded.bytes"

export default Effect.gen(function* () {
  const sql = yield* SqlClient

  // A keyed digest. None for reports of signed-in reporters, and for those from before.
  yield* sql`ALTER TABLE reports ADD COLUMN network TEXT`
  yield* sql`
    CREATE TABLE room_holders (
      plane TEXT NOT NULL,
      holder TEXT NOT NULL,
      bytes BIGINT NOT NULL,
      PRIMARY KEY (plane, holder)
    )`
  yield* sql`
    CREATE INDEX reports_anonymous ON reports (created_at, id, reporter) WHERE reporter IN ('anonymous', 'unverified')`

  yield* sql.onDialectOrElse({ pg: () => inPostgres(sql), orElse: () => inSqlite(sql) })

  const bytes = sql.onDialectOrElse({
    pg: () => "OCTET_LENGTH(content)",
    orElse: () => "LENGTH(CAST(content AS BLOB))"
  })
  yield* sql.unsafe(`
    INSERT INTO room_holders (plane, holder, bytes)
    SELECT plane, reporter, SUM(${bytes} + 1000) FROM reports WHERE reporter LIKE 'verified:%' GROUP BY plane, reporter`)
})

const inSqlite = (sql: SqlClient) =>
  Effect.gen(function* () {
    const count = (row: "NEW" | "OLD", sign: "" | "-") =>
      `INSERT INTO room_holders (plane, holder, bytes)
      SELECT ${planeOf(row)}, ${holderOf(row)}, ${sign}(LENGTH(CAST(${row}.content AS BLOB)) + 1000)
      WHERE ${holderOf(row)} IS NOT NULL ${add};`
    const forget = `DELETE FROM room_holders
      WHERE plane = ${planeOf("OLD")} AND holder = ${holderOf("OLD")} AND bytes <= 0;`
    const triggers = [
      ["holders_added", "INSERT", count("NEW", "")],
      [
        "holders_changed",
        "UPDATE OF reporter, content, network",
        `${count("NEW", "")} ${count("OLD", "-")} ${forget}`
      ],
      ["holders_removed", "DELETE", `${count("OLD", "-")} ${forget}`]
    ]
    for (const [name, event, body] of triggers)
      yield* sql.unsafe(`CREATE TRIGGER ${name} AFTER ${event} ON reports BEGIN ${body} END`)
  })

/**
 * A statement at a time and in the order of their keys, so that transactions wait for each other, and not in a circle. Triggers run in
 * the order of their names: these before those of the total, as in the removal of a report, which changes the total last.
 */
const inPostgres = (sql: SqlClient) =>
  Effect.gen(function* () {
    const changes = (rows: string, sign: "" | "-") =>
      `SELECT ${planeOf(rows)} AS plane, ${holderOf(rows)} AS holder, ${sign}(OCTET_LENGTH(content) + 1000) AS change
        FROM ${rows} WHERE ${holderOf(rows)} IS NOT NULL`
    const count = (rows: string) =>
      `INSERT INTO room_holders (plane, holder, bytes)
        SELECT plane, holder, SUM(change) FROM (${rows}) AS changes
        GROUP BY plane, holder HAVING SUM(change) <> 0 ORDER BY plane, holder ${add};`
    yield* sql.unsafe(`
      CREATE FUNCTION count_room_holders() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF TG_OP = 'INSERT' THEN ${count(changes("added", ""))}
        ELSE
          IF TG_OP = 'DELETE' THEN ${count(changes("removed", "-"))}
          ELSE ${count(`${changes("added", "")} UNION ALL ${changes("removed", "-")}`)} END IF;
          DELETE FROM room_holders
            WHERE bytes <= 0 AND (plane, holder) IN (SELECT ${planeOf("removed")}, ${holderOf("removed")} FROM removed);
        END IF;
        RETURN NULL;
      END $$`)
    const triggers = [
      ["holders_added", "INSERT", "NEW TABLE AS added"],
      ["holders_changed", "UPDATE", "NEW TABLE AS added OLD TABLE AS removed"],
      ["holders_removed", "DELETE", "OLD TABLE AS removed"]
    ]
    for (const [name, event, tables] of triggers)
      yield* sql.unsafe(
        `CREATE TRIGGER ${name} AFTER ${event} ON reports REFERENCING ${tables}
        FOR EACH STATEMENT EXECUTE FUNCTION count_room_holders()`
      )
  })
