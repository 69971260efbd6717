/** Completion scripts. The library makes them; what it gets wrong for a program with a hyphen in its name is put right. */
import * as CommandDescriptor from "@effect/cli/CommandDescriptor"
import * as Effect from "effect/Effect"

export const shells = ["bash", "zsh", "fish"] as const
export type Shell = (typeof shells)[number]

export const isShell = (name: string): name is Shell => shells.some((shell) => shell === name)

/**
 * It spells the program `music-backend` where it enters a command and `music__backend` where it looks for one, and looks
 * for `reports list` as if it had not entered `reports`, so that nothing below the top would be completed; and it
 * separates choices by commas, where bash wants spaces.
 */
const repairedBash = (script: string, program: string): string => {
  const spelled = program.replaceAll("-", "__")
  return script
    .replaceAll(`cmd="${program}"`, `cmd="${spelled}"`)
    .replaceAll(`        ${program})`, `        ${spelled})`)
    .replaceAll(/^( +\w+),(\w+),(\w+)\)$/gm, "$1__$2,$3)")
    .replaceAll(
      /compgen -W "([^"$]*)"/g,
      (_, choices: string) => `compgen -W "${choices.replaceAll(",", " ")}"`
    )
}

/** It calls `_music-backend__reports_commands` what it defined as `_music__backend__reports_commands`. */
const repairedZsh = (script: string, program: string): string =>
  script.replaceAll(`_${program}__`, `_${program.replaceAll("-", "__")}__`)

export const completionScript = (
  descriptor: CommandDescriptor.Command<unknown>,
  program: string,
  shell: Shell
): Effect.Effect<string> => {
  const joined = (lines: Effect.Effect<ReadonlyArray<string>>) => Effect.map(lines, (all) => all.join("\n"))
  switch (shell) {
    case "bash":
      return Effect.map(joined(CommandDescriptor.getBashCompletions(descriptor, program)), (script) =>
        repairedBash(script, program)
      )
    case "zsh":
      return Effect.map(joined(CommandDescriptor.getZshCompletions(descriptor, program)), (script) =>
        repairedZsh(script, program)
      )
    case "fish":
      return joined(CommandDescriptor.getFishCompletions(descriptor, program))
  }
}
