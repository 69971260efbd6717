/**
 * Totals that need no scan of all rows, part of the baseline. Triggers keep them: they count what every version of the program
 * writes, in the transaction that writes it. A report counts with the bytes of its content, and 1,000 for its row, its keys and
 * its delivery: in all reports, and for its signed-in reporter or the network of its anonymous one.
 */
import { SqlClient } from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/** Of a signed-in reporter the plane and the name; of any other report no plane and its network. */
const planeOf = (row: string) => `CASE WHEN ${row}.reporter LIKE 'verified:%' THEN ${row}.plane ELSE '' END`
const holderOf = (row: string) =>
  `CASE WHEN ${row}.reporter LIKE 'verified:%' THEN ${row}.reporter ELSE ${row}.network END`

const addTotal = "ON CONFLICT (id) DO UPDATE SET bytes = report_totals.bytes + excluded.bytes"
const addHeld = "ON CONFLICT (plane, holder) DO UPDATE SET bytes = room_holders.bytes + excluded.bytes"
const addCount = "ON CONFLICT (kind, state) DO UPDATE SET count = delivery_counts.count + excluded.count"

export const createSums = Effect.gen(function* () {
  const sql = yield* SqlClient
  yield* sql`CREATE TABLE report_totals (id INTEGER NOT NULL PRIMARY KEY, bytes BIGINT NOT NULL)`
  yield* sql`INSERT INTO report_totals (id, bytes) VALUES (1, 0)`
  // `discarded` is a separate state here: a discarded delivery does not wait for an operator.
  yield* sql`
    CREATE TABLE delivery_counts (
      kind TEXT NOT NULL,
      state TEXT NOT NULL,
      count BIGINT NOT NULL,
      PRIMARY KEY (kind, state)
    )`
  yield* sql`
    CREATE TABLE room_holders (
      plane TEXT NOT NULL,
      holder TEXT NOT NULL,
      bytes BIGINT NOT NULL,
      PRIMARY KEY (plane, holder)
    )`
  yield* sql.onDialectOrElse({ pg: () => inPostgres(sql), orElse: () => inSqlite(sql) })
})

/** Row by row, because SQLite has only row-level triggers. */
const inSqlite = (sql: SqlClient) => {
  const bytesOf = (row: "NEW" | "OLD") => `(LENGTH(CAST(${row}.content AS BLOB)) + 1000)`
  const addReport = (row: "NEW" | "OLD", sign: "" | "-") =>
    `INSERT INTO report_totals (id, bytes) VALUES (1, ${sign}${bytesOf(row)})
      ${addTotal};`
  const stateOf = (row: "NEW" | "OLD") =>
    `CASE WHEN ${row}.state = 'failed' AND ${row}.discarded_at IS NOT NULL THEN 'discarded' ELSE ${row}.state END`
  const addDelivery = (row: "NEW" | "OLD", sign: "" | "-") =>
    `INSERT INTO delivery_counts (kind, state, count) VALUES (${row}.kind, ${stateOf(row)}, ${sign}1)
      ${addCount};`
  const hold = (row: "NEW" | "OLD", sign: "" | "-") =>
    `INSERT INTO room_holders (plane, holder, bytes)
      SELECT ${planeOf(row)}, ${holderOf(row)}, ${sign}${bytesOf(row)}
      WHERE ${holderOf(row)} IS NOT NULL ${addHeld};`
  const forget = `DELETE FROM room_holders
      WHERE plane = ${planeOf("OLD")} AND holder = ${holderOf("OLD")} AND bytes <= 0;`
  const triggers = [
    ["reports_added", "INSERT ON reports", addReport("NEW", "")],
    ["reports_removed", "DELETE ON reports", addReport("OLD", "-")],
    ["deliveries_added", "INSERT ON deliveries", addDelivery("NEW", "")],
    [
      "deliveries_changed",
      `UPDATE OF state, discarded_at ON deliveries
      WHEN ${stateOf("OLD")} <> ${stateOf("NEW")}`,
      `${addDelivery("OLD", "-")} ${addDelivery("NEW", "")}`
    ],
    ["deliveries_removed", "DELETE ON deliveries", addDelivery("OLD", "-")],
    ["holders_added", "INSERT ON reports", hold("NEW", "")],
    [
      "holders_changed",
      "UPDATE OF reporter, content, network ON reports",
      `${hold("NEW", "")} ${hold("OLD", "-")} ${forget}`
    ],
    ["holders_removed", "DELETE ON reports", `${hold("OLD", "-")} ${forget}`]
  ]
  return Effect.forEach(triggers, ([name, event, body]) =>
    sql.unsafe(`CREATE TRIGGER ${name} AFTER ${event} BEGIN ${body} END`)
  )
}

/**
 * A statement at a time: thousands of changes of one row in one transaction would slow each other down. Rows of the sums are changed in
 * their order, so that transactions wait for each other, and not in a circle. Triggers run in the order of their names: those of the
 * holders before those of the total, as in the removal of a report, which changes the total last.
 */
const inPostgres = (sql: SqlClient) => {
  const addReports = (rows: string, sign: "" | "-") =>
    `INSERT INTO report_totals (id, bytes)
        SELECT 1, ${sign}SUM(OCTET_LENGTH(content) + 1000) FROM ${rows} HAVING COUNT(*) > 0
        ${addTotal};`
  const states = (rows: string, change: "1" | "-1") =>
    `SELECT kind, CASE WHEN state = 'failed' AND discarded_at IS NOT NULL THEN 'discarded' ELSE state END AS state,
        ${change} AS change FROM ${rows}`
  const addDeliveries = (rows: string) =>
    `INSERT INTO delivery_counts (kind, state, count)
        SELECT kind, state, SUM(change) FROM (${rows}) AS changes
        GROUP BY kind, state HAVING SUM(change) <> 0 ORDER BY kind, state
        ${addCount};`
  const held = (rows: string, sign: "" | "-") =>
    `SELECT ${planeOf(rows)} AS plane, ${holderOf(rows)} AS holder, ${sign}(OCTET_LENGTH(content) + 1000) AS change
        FROM ${rows} WHERE ${holderOf(rows)} IS NOT NULL`
  const hold = (rows: string) =>
    `INSERT INTO room_holders (plane, holder, bytes)
        SELECT plane, holder, SUM(change) FROM (${rows}) AS changes
        GROUP BY plane, holder HAVING SUM(change) <> 0 ORDER BY plane, holder ${addHeld};`
  const functions = [
    [
      "count_reports",
      `IF TG_OP = 'INSERT' THEN ${addReports("added", "")}
        ELSE ${addReports("removed", "-")} END IF;`
    ],
    [
      "count_deliveries",
      `IF TG_OP = 'INSERT' THEN ${addDeliveries(states("added", "1"))}
        ELSIF TG_OP = 'DELETE' THEN ${addDeliveries(states("removed", "-1"))}
        ELSE ${addDeliveries(`${states("added", "1")} UNION ALL ${states("removed", "-1")}`)} END IF;`
    ],
    [
      "count_room_holders",
      `IF TG_OP = 'INSERT' THEN ${hold(held("added", ""))}
        ELSE
          IF TG_OP = 'DELETE' THEN ${hold(held("removed", "-"))}
          ELSE ${hold(`${held("added", "")} UNION ALL ${held("removed", "-")}`)} END IF;
          DELETE FROM room_holders
            WHERE bytes <= 0 AND (plane, holder) IN (SELECT ${planeOf("removed")}, ${holderOf("removed")} FROM removed);
        END IF;`
    ]
  ]
  const added = "REFERENCING NEW TABLE AS added"
  const removed = "REFERENCING OLD TABLE AS removed"
  const changed = `${added} OLD TABLE AS removed`
  const triggers = [
    ["reports_added", `INSERT ON reports ${added}`, "count_reports"],
    ["reports_removed", `DELETE ON reports ${removed}`, "count_reports"],
    ["deliveries_added", `INSERT ON deliveries ${added}`, "count_deliveries"],
    ["deliveries_changed", `UPDATE ON deliveries ${changed}`, "count_deliveries"],
    ["deliveries_removed", `DELETE ON deliveries ${removed}`, "count_deliveries"],
    ["holders_added", `INSERT ON reports ${added}`, "count_room_holders"],
    ["holders_changed", `UPDATE ON reports ${changed}`, "count_room_holders"],
    ["holders_removed", `DELETE ON reports ${removed}`, "count_room_holders"]
  ]
  return Effect.forEach(
    [
      ...functions.map(
        ([name, body]) => `
      CREATE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        ${body}
        RETURN NULL;
      END $$`
      ),
      ...triggers.map(
        ([name, event, counting]) =>
          `CREATE TRIGGER ${name} AFTER ${event} FOR EACH STATEMENT EXECUTE FUNCTION ${counting}()`
      )
    ],
    (statement) => sql.unsafe(statement)
  )
}
