/** The Dockerfile as data: its build arguments, and its stages with their instructions. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "../world/Fleet.ts"

export interface Instruction {
  /** In upper case, such as COPY. */
  readonly name: string
  /** The words `--from=build` of COPY, and those of other instructions. */
  readonly flags: Readonly<Record<string, string>>
  readonly rest: string
}

export interface Recipe {
  /** The defaults of the build arguments before the first stage. */
  readonly images: Readonly<Record<string, string>>
  readonly stages: ReadonlyArray<ReadonlyArray<Instruction>>
}

export const recipeText = readFileSync(join(root, "Dockerfile"), "utf8")

const instructionOf = (line: string): Instruction => {
  const [, name = "", flags = "", rest = ""] = /^(\w+)\s+((?:--[\w-]+=\S+\s+)*)(.*)$/.exec(line) ?? []
  const pairs = [...flags.matchAll(/--([\w-]+)=(\S+)/g)].map(([, flag = "", value = ""]) => [flag, value])
  return { name, flags: Object.fromEntries(pairs), rest }
}

export const readRecipe = (): Recipe => {
  const instructions = recipeText
    .replace(/^#.*\n/gm, "")
    .replace(/\\\n\s*/g, " ")
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map(instructionOf)
  const first = instructions.findIndex(({ name }) => name === "FROM")
  const stages: Array<Array<Instruction>> = []
  for (const instruction of instructions.slice(first))
    if (instruction.name === "FROM") stages.push([instruction])
    else stages.at(-1)?.push(instruction)
  return {
    images: Object.fromEntries(instructions.slice(0, first).map(({ rest }) => rest.split("=", 2))),
    stages
  }
}

/** The values of an instruction of `name="value"` pairs: LABEL and ENV. */
export const pairsOf = ({ rest }: Instruction): Readonly<Record<string, string>> =>
  Object.fromEntries(
    [...rest.matchAll(/([\w.]+)=(?:"([^"]*)"|(\S+))/g)].map(([, key = "", quoted, bare]) => [
      key,
      quoted ?? bare ?? ""
    ])
  )

/** The words of an instruction in the form of JSON. */
export const wordsOf = (text: string): ReadonlyArray<string> => {
  const words: unknown = JSON.parse(text)
  if (!Array.isArray(words)) throw new Error(`${text} is no list of words`)
  return words.map(String)
}
