/** Help of a command: what the library knows of it, in a few lines. */

import * as CliConfig from "@effect/cli/CliConfig"
import * as CommandDescriptor from "@effect/cli/CommandDescriptor"
import * as HelpDoc from "@effect/cli/HelpDoc"
import type * as Span from "@effect/cli/HelpDoc/Span"
import * as Option from "effect/Option"
import { coloured, type ScreenService } from "./Screen.ts"
import { padded, widthOf } from "./Text.ts"

type Descriptor = CommandDescriptor.Command<unknown>

/** The commands as a tree: the library tells those of the top only. */
export interface Branch {
  readonly name: string
  readonly descriptor: Descriptor
  readonly children: ReadonlyArray<Branch>
}

export const branch = (
  { descriptor }: { readonly descriptor: Descriptor },
  children: ReadonlyArray<Branch> = []
): Branch => ({
  name: [...CommandDescriptor.getNames(descriptor)][0] ?? "",
  descriptor,
  children
})

export interface Named {
  /** From the program's name on. */
  readonly path: ReadonlyArray<string>
  readonly branch: Branch
  /** What stands where a command should, when it is none. */
  readonly stranger: string | undefined
}

/** The command that arguments name. */
export const named = (root: Branch, args: ReadonlyArray<string>): Named => {
  let path: ReadonlyArray<string> = [root.name]
  let current = root
  for (const arg of args) {
    if (arg.startsWith("-") || current.children.length === 0) break
    const next = current.children.find(({ name }) => name === arg)
    if (next === undefined) return { path, branch: current, stranger: arg }
    path = [...path, arg]
    current = next
  }
  return { path, branch: current, stranger: undefined }
}

const spanText = (span: Span.Span): string => {
  switch (span._tag) {
    case "Sequence":
      return spanText(span.left) + spanText(span.right)
    case "Text":
    case "URI":
      return span.value
    default:
      return spanText(span.value)
  }
}

/** A help document as plain text on one line, or what there is of it line by line. */
export const linesOf = (doc: HelpDoc.HelpDoc): ReadonlyArray<string> => {
  switch (doc._tag) {
    case "Empty":
      return []
    case "Header":
    case "Paragraph":
      return [spanText(doc.value).replaceAll(/\s+/g, " ").trim()].filter((line) => line !== "")
    case "Sequence":
      return [...linesOf(doc.left), ...linesOf(doc.right)]
    case "Enumeration":
      return doc.elements.flatMap(linesOf)
    case "DescriptionList":
      return doc.definitions.flatMap(([, inner]) => linesOf(inner))
  }
}

/** Said of every option of a kind; its label says it already. */
const said =
  /^(?:A true or false value|An integer|A user-defined piece of text|A file|A directory|One of the following: .*|This (?:setting|option) is optional|This option may be repeated zero or more times|This argument may be repeated zero or more times)\.?$/

interface Entry {
  readonly label: string
  readonly text: string
}

const entriesIn = (doc: HelpDoc.HelpDoc): ReadonlyArray<Entry> => {
  switch (doc._tag) {
    case "Sequence":
      return [...entriesIn(doc.left), ...entriesIn(doc.right)]
    case "DescriptionList":
      return doc.definitions.map(([label, inner]) => ({
        label: spanText(label)
          .replaceAll(" | ", "|")
          .replace(/^\((-.*)\)$/, "$1")
          .trim(),
        text: linesOf(inner)
          .filter((line) => !said.test(line))
          .map((line) => line.replace(/^This setting is optional\. Defaults to: (.*)$/, "(default $1)"))
          .join(" ")
      }))
    default:
      return []
  }
}

/** Paragraphs and lists below each heading. */
const sectionsOf = (doc: HelpDoc.HelpDoc): ReadonlyMap<string, HelpDoc.HelpDoc> => {
  const sections = new Map<string, HelpDoc.HelpDoc>()
  let heading = ""
  const visit = (part: HelpDoc.HelpDoc): void => {
    if (part._tag === "Sequence") {
      visit(part.left)
      visit(part.right)
    } else if (part._tag === "Header") heading = spanText(part.value)
    else sections.set(heading, HelpDoc.sequence(sections.get(heading) ?? HelpDoc.empty, part))
  }
  visit(doc)
  return sections
}

const helpOf = ({ descriptor }: Branch): ReadonlyMap<string, HelpDoc.HelpDoc> =>
  sectionsOf(
    CommandDescriptor.getHelp(descriptor, CliConfig.make({ showBuiltIns: false, isCaseSensitive: true }))
  )

const descriptionOf = (command: Branch): string =>
  linesOf(helpOf(command).get("DESCRIPTION") ?? HelpDoc.empty).join(" ")

const block = (
  screen: ScreenService,
  title: string,
  entries: ReadonlyArray<Entry>
): ReadonlyArray<string> => {
  if (entries.length === 0) return []
  const width = Math.max(...entries.map(({ label }) => widthOf(label)))
  return [
    "",
    coloured(screen, "bold", title),
    ...entries.map(({ label, text }) => `  ${padded(label, width)}  ${text}`.trimEnd())
  ]
}

const everywhere: ReadonlyArray<Entry> = [{ label: "-h, --help", text: "this help" }]

const atTheTop: ReadonlyArray<Entry> = [
  ...everywhere,
  { label: "--version", text: "the version" },
  { label: "--completions bash|zsh|fish", text: "a completion script for this shell" },
  { label: "--wizard", text: "asks for a command and its options, question by question" }
]

export const renderHelp = (screen: ScreenService, { branch: command, path }: Named): string => {
  const sections = helpOf(command)
  const isGroup = command.children.length > 0
  const args = entriesIn(sections.get("ARGUMENTS") ?? HelpDoc.empty)
  const options = entriesIn(sections.get("OPTIONS") ?? HelpDoc.empty)
  const commands = command.children.map((child) => ({ label: child.name, text: descriptionOf(child) }))
  const usage = [
    path.join(" "),
    ...(isGroup ? ["<command>"] : []),
    ...args.map(({ label }) => label),
    ...(options.length > 0 ? ["[options]"] : [])
  ].join(" ")
  return [
    descriptionOf(command),
    "",
    `${coloured(screen, "bold", "Usage:")} ${usage}`,
    ...block(screen, "Commands:", commands),
    ...block(screen, "Arguments:", args),
    ...block(screen, "Options:", [...options, ...(path.length === 1 ? atTheTop : everywhere)]),
    ...(isGroup ? ["", `Help on one: ${path.join(" ")} <command> --help`] : [])
  ].join("\n")
}

/** The whole message of an error of the library, on one line. */
export const errorText = (doc: HelpDoc.HelpDoc): string => linesOf(doc).join("; ")

/** Whether help is asked for; what stands behind `--` is not an option. */
export const wantsHelp = (args: ReadonlyArray<string>): boolean => {
  const end = args.indexOf("--")
  return args.slice(0, end === -1 ? args.length : end).some((arg) => arg === "--help" || arg === "-h")
}

export const optionValue = (args: ReadonlyArray<string>, name: string): Option.Option<string> => {
  const [first = "", second = ""] = args
  if (first === name) return Option.some(second)
  return first.startsWith(`${name}=`) ? Option.some(first.slice(name.length + 1)) : Option.none()
}
