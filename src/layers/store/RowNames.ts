/** Columns have snake case in both databases, and camel case in the program. */
import { snakeToCamel } from "effect/String"
import type { Rows } from "./Query.ts"

/** The columns of the statements of this program, so it stays small. */
const names = new Map<string, string>()

const toCamelCase = (column: string): string => {
  const known = names.get(column)
  if (known !== undefined) return known
  const name = snakeToCamel(column)
  names.set(column, name)
  return name
}

export const withCamelCase = (rows: ReadonlyArray<Readonly<Record<string, unknown>>>): Rows =>
  rows.map((row) => {
    const renamed: Record<string, unknown> = {}
    for (const column in row) renamed[toCamelCase(column)] = row[column]
    return renamed
  })
