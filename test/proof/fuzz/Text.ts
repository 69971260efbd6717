/** Random texts of all planes of Unicode, and texts of exact length in a given unit. */
import type { Random } from "../../durability/Random.ts"

export const pick = <A>(random: Random, items: readonly [A, ...ReadonlyArray<A>]): A =>
  items[random.below(items.length)] ?? items[0]

/** Ranges of code points: letters, combining marks, invisible characters, the other planes. */
const ranges: readonly [readonly [number, number], ...ReadonlyArray<readonly [number, number]>] = [
  [0x20, 0x7e],
  [0x20, 0x7e],
  [0x80, 0x24f],
  [0x300, 0x36f],
  [0x590, 0x6ff],
  [0x200b, 0x200f],
  [0x202a, 0x202e],
  [0x2060, 0x206f],
  [0x3040, 0x9fff],
  [0xe000, 0xf8ff],
  [0xfe00, 0xfe0f],
  [0xfff0, 0xffff],
  [0x1_0000, 0x1_ffff],
  [0x2_0000, 0x3_134f],
  [0xe_0000, 0xe_01ef],
  [0xf_0000, 0x10_ffff]
]

const codePoint = (random: Random): number => {
  const [low, high] = pick(random, ranges)
  return low + random.below(high - low + 1)
}

/** Well-formed text with so many code points. */
export const textOf = (random: Random, length: number): string => {
  let text = ""
  for (let count = 0; count < length; count += 1) text += String.fromCodePoint(codePoint(random))
  return text
}

/** Characters of 1 to 4 bytes of UTF-8, among them one of two UTF-16 units, a combining mark and an invisible one. */
export const units: readonly [string, ...ReadonlyArray<string>] = ["x", "é", "語", "𝄞", "\u0301", "\u200b"]

/** Numbers that programs read wrong. */
export const oddNumbers: readonly [string, ...ReadonlyArray<string>] = [
  "1e308",
  "1e309",
  "-1e309",
  "-0",
  "9007199254740993",
  "1".repeat(400),
  "-1",
  "0.1e-400",
  "1E+2",
  "2147483648"
]
