/** The recipe of the image, without building it. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { validate } from "dockerfile-utils"
import { describe, expect, it } from "vitest"
import { root } from "../support/Process.ts"
import { pairsOf, readRecipe, recipeText, wordsOf } from "./Recipe.ts"

const { images, stages } = readRecipe()
const final = stages.at(-1) ?? []
const only = (name: string) => {
  const [found, ...others] = final.filter((instruction) => instruction.name === name)
  if (found === undefined || others.length > 0) throw new Error(`the last stage has not one ${name}`)
  return found
}

describe("The image's recipe", () => {
  it("has no fault that the validator knows", () => {
    expect(validate(recipeText).map(({ message, range }) => `${range.start.line + 1}: ${message}`)).toEqual(
      []
    )
  })

  it("pins its base images by version, each in a build argument", () => {
    for (const image of Object.values(images)) expect(image).toMatch(/^[\w./-]+:\d+\.\d+(?:\.\d+)?-\w+$/)
    expect(stages.map(([from]) => from?.rest.split(" ")[0])).toEqual(
      Object.keys(images).map((name) => `\${${name}}`)
    )
  })

  it("runs nothing in the last stage, which copies from the build alone", () => {
    expect(final.filter(({ name }) => ["RUN", "ADD"].includes(name))).toEqual([])
    const copies = final.filter(({ name }) => name === "COPY")
    expect(copies.filter(({ flags }) => flags.from !== "build")).toEqual([])
  })

  it("starts Node without a shell, as a user with a fixed number, with settings that reach it from outside", () => {
    expect(wordsOf(only("CMD").rest)).toEqual(["node", "dist/main.js"])
    expect(only("USER").rest).toMatch(/^[1-9]\d{3,}:[1-9]\d{3,}$/)
    const data = final.find(({ rest }) => rest.endsWith(" /data"))
    expect(data?.flags.chown).toBe(only("USER").rest)
    expect(pairsOf(only("ENV"))).toEqual({
      MUSIC_BIND: "0.0.0.0:8787",
      MUSIC_DATABASE_PATH: `${only("VOLUME").rest}/music.sqlite`
    })
    expect(only("EXPOSE").rest).toBe("8787")
  })

  it("gets from the folder what it copies, and nothing else", () => {
    const allowed = readFileSync(join(root, ".dockerignore"), "utf8")
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
    expect(allowed[0]).toBe("*")
    const copied = stages
      .flat()
      .filter(({ flags, name }) => name === "COPY" && flags.from === undefined)
      .flatMap(({ rest }) => rest.split(" ").slice(0, -1))
    expect(allowed.slice(1).toSorted()).toEqual(copied.map((path) => `!${path}`).toSorted())
  })
})
