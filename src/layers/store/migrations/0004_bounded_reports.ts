/**
 * Totals that need no scan of all rows, and the order in which deliveries are claimed. Triggers keep the sums: they count what every
 * version of the program writes, in the transaction that writes it.
 */
import { SqlClient } from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

export default Effect.gen(function* () {
  const sql = yield* SqlClient

  // Lower comes first: 0 for verified reporters, sweeps and retries by an operator, 1 for all others.
  yield* sql`ALTER TABLE deliveries ADD COLUMN priority INTEGER NOT NULL DEFAULT 1`
  yield* sql`
    UPDATE deliveries SET priority = 0
    WHERE kind = 'sweep' OR subject IN (SELECT id FROM reports WHERE reporter LIKE 'verified:%')`
  yield* sql`DROP INDEX deliveries_by_due`
  yield* sql`CREATE INDEX deliveries_by_turn ON deliveries (kind, state, priority, available_at, id)`
  yield* sql`CREATE INDEX deliveries_open ON deliveries (kind, created_at) WHERE finished_at IS NULL`

  // A report counts with the bytes of its content, and 1,000 for its row, its keys and its delivery.
  yield* sql`CREATE TABLE report_totals (id INTEGER NOT NULL PRIMARY KEY, bytes BIGINT NOT NULL)`
  // `discarded` is a separate state here: a discarded delivery does not wait for an operator.
  yield* sql`
    CREATE TABLE delivery_counts (
      kind TEXT NOT NULL,
      state TEXT NOT NULL,
      count BIGINT NOT NULL,
      PRIMARY KEY (kind, state)
    )`

  yield* sql.onDialectOrElse({ pg: () => inPostgres(sql), orElse: () => inSqlite(sql) })

  yield* sql`
    INSERT INTO report_totals (id, bytes)
    SELECT 1, COALESCE(SUM(${sql.literal(
      sql.onDialectOrElse({
        pg: () => "OCTET_LENGTH(content)",
        orElse: () => "LENGTH(CAST(content AS BLOB))"
      })
    )} + 1000), 0) FROM reports`
  yield* sql`
    INSERT INTO delivery_counts (kind, state, count)
    SELECT kind, CASE WHEN state = 'failed' AND discarded_at IS NOT NULL THEN 'discarded' ELSE state END, COUNT(*)
    FROM deliveries GROUP BY 1, 2`
})

/** Row by row, because SQLite has only row-level triggers. */
const inSqlite = (sql: SqlClient) =>
  Effect.gen(function* () {
    const addReport = (row: "NEW" | "OLD", sign: "" | "-") =>
      `INSERT INTO report_totals (id, bytes) VALUES (1, ${sign}(LENGTH(CAST(${row}.content AS BLOB)) + 1000))
      ON CONFLICT (id) DO UPDATE SET bytes = report_totals.bytes + excluded.bytes;`
    const stateOf = (row: "NEW" | "OLD") =>
      `CASE WHEN ${row}.state = 'failed' AND ${row}.discarded_at IS NOT NULL THEN 'discarded' ELSE ${row}.state END`
    const addDelivery = (row: "NEW" | "OLD", sign: "" | "-") =>
      `INSERT INTO delivery_counts (kind, state, count) VALUES (${row}.kind, ${stateOf(row)}, ${sign}1)
      ON CONFLICT (kind, state) DO UPDATE SET count = delivery_counts.count + excluded.count;`

    yield* sql.unsafe(
      `CREATE TRIGGER reports_added AFTER INSERT ON reports BEGIN ${addReport("NEW", "")} END`
    )
    yield* sql.unsafe(
      `CREATE TRIGGER reports_removed AFTER DELETE ON reports BEGIN ${addReport("OLD", "-")} END`
    )
    yield* sql.unsafe(
      `CREATE TRIGGER deliveries_added AFTER INSERT ON deliveries BEGIN ${addDelivery("NEW", "")} END`
    )
    yield* sql.unsafe(
      `CREATE TRIGGER deliveries_changed AFTER UPDATE OF state, discarded_at ON deliveries
      WHEN ${stateOf("OLD")} <> ${stateOf("NEW")}
      BEGIN ${addDelivery("OLD", "-")} ${addDelivery("NEW", "")} END`
    )
    yield* sql.unsafe(
      `CREATE TRIGGER deliveries_removed AFTER DELETE ON deliveries BEGIN ${addDelivery("OLD", "-")} END`
    )
  })

/**
 * A statement at a time: thousands of changes of one row in one transaction would slow each other down. Rows of the sums are changed in
 * their order, so that transactions wait for each other, and not in a circle.
 */
const inPostgres = (sql: SqlClient) =>
  Effect.gen(function* () {
    const addReports = (rows: string, sign: "" | "-") =>
      `INSERT INTO report_totals (id, bytes)
        SELECT 1, ${sign}SUM(OCTET_LENGTH(content) + 1000) FROM ${rows} HAVING COUNT(*) > 0
        ON CONFLICT (id) DO UPDATE SET bytes = report_totals.bytes + excluded.bytes;`
    const changes = (rows: string, change: "1" | "-1") =>
      `SELECT kind, CASE WHEN state = 'failed' AND discarded_at IS NOT NULL THEN 'discarded' ELSE state END AS state,
        ${change} AS change FROM ${rows}`
    const addDeliveries = (rows: string) =>
      `INSERT INTO delivery_counts (kind, state, count)
        SELECT kind, state, SUM(change) FROM (${rows}) AS changes
        GROUP BY kind, state HAVING SUM(change) <> 0 ORDER BY kind, state
        ON CONFLICT (kind, state) DO UPDATE SET count = delivery_counts.count + excluded.count;`

    yield* sql.unsafe(`
      CREATE FUNCTION count_reports() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF TG_OP = 'INSERT' THEN ${addReports("added", "")}
        ELSE ${addReports("removed", "-")} END IF;
        RETURN NULL;
      END $$`)
    yield* sql.unsafe(`
      CREATE FUNCTION count_deliveries() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF TG_OP = 'INSERT' THEN ${addDeliveries(changes("added", "1"))}
        ELSIF TG_OP = 'DELETE' THEN ${addDeliveries(changes("removed", "-1"))}
        ELSE ${addDeliveries(`${changes("added", "1")} UNION ALL ${changes("removed", "-1")}`)} END IF;
        RETURN NULL;
      END $$`)
    const triggers = [
      ["reports_added", "INSERT ON reports REFERENCING NEW TABLE AS added", "count_reports"],
      ["reports_removed", "DELETE ON reports REFERENCING OLD TABLE AS removed", "count_reports"],
      ["deliveries_added", "INSERT ON deliveries REFERENCING NEW TABLE AS added", "count_deliveries"],
      [
        "deliveries_changed",
        "UPDATE ON deliveries REFERENCING NEW TABLE AS added OLD TABLE AS removed",
        "count_deliveries"
      ],
      ["deliveries_removed", "DELETE ON deliveries REFERENCING OLD TABLE AS removed", "count_deliveries"]
    ]
    for (const [name, event, counting] of triggers)
      yield* sql.unsafe(
        `CREATE TRIGGER ${name} AFTER ${event} FOR EACH STATEMENT EXECUTE FUNCTION ${counting}()`
      )
  })
