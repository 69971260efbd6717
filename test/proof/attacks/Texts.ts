/** Texts that are slow to search. */
import { parseJson } from "../../../src/http/body/StrictJson.ts"
import { anonymise, anonymiseAll } from "../../../src/services/text/Anonymisation.ts"
import { canonicalJson } from "../../../src/services/Digest.ts"
import { redact } from "../../../src/services/text/Redaction.ts"
import { normaliseText } from "../../../src/services/text/VisibleText.ts"
import type { Random } from "../../world/Arbitraries.ts"
import { cpuMillisOf } from "../../world/CpuTime.ts"
import type { Attack } from "./AttackedServer.ts"

/** Parts of texts that the patterns of the service begin to match, or fail to match late. */
const parts = [
  ..."\\ \\\\ u0061 \\u0061 \\ud83d \\x5f %25 % %5f %c3%a9 %u0061 &amp; &# 0 x5f; &colon ; ask_ oat_ a A _ -".split(
    " "
  ),
  ...'. + ~ = / a_ a-b_ bearer+ Authorization\\": [ ] ( ` @ # GH-1 report-ref si: si:deejay c: c_abc stk-'.split(
    " "
  ),
  ..."table-a- github_pat_ ghp_ ａ ﬁ ä < ! :// https:".split(" "),
  ...[
    "Bearer ",
    "authorization: ",
    "Basic ",
    "\u200b",
    "\u00ad",
    "\ufeff",
    "\ud800",
    "\r",
    "\r\n",
    "\n",
    "\t"
  ],
  ...[" ", "\u2028"]
]

/** Every function that searches a caller's text. */
const functions: Readonly<Record<string, (text: string) => unknown>> = {
  redact,
  anonymise: (text) => anonymise(text, "si:deejay"),
  anonymiseAll,
  normaliseText,
  parseJson: (text) => parseJson(Buffer.from(JSON.stringify({ text }))),
  canonicalJson: (text) =>
    canonicalJson(Object.fromEntries(text.split("").map((letter, at) => [`${letter}${at}`, at])))
}

/** Milliseconds of the processor, the least of some runs. */
const timeOf = (run: () => void, runs: number): number =>
  Math.min(...Array.from({ length: runs }, () => cpuMillisOf(run)))

const small = 3_000
const growth = 4
/** A linear function takes 4 times as long, a quadratic one 16 times. */
const most = 9
/** Milliseconds below which a time is not compared. */
const measurable = 4

/** Whether the time grows faster than the length, from so many characters on. */
const isSlow = (use: (text: string) => unknown, word: string, runs: number, from = small): boolean => {
  // The beginning keeps functions from leaving plain texts out.
  const text = (length: number) => `\u200bbearer ${word.repeat(Math.ceil(length / word.length))}`
  const [short, long] = [text(from), text(from * growth)]
  const later = timeOf(() => use(long), runs)
  return (
    later >= measurable &&
    later >
      most *
        Math.max(
          0.3,
          timeOf(() => use(short), runs + 1)
        )
  )
}

const wordOf = (random: Random): string =>
  Array.from({ length: 1 + random.below(4) }, () => parts[random.below(parts.length)] ?? "").join("")

/** Repeats each part, and random words of them: no function may take more than linear time. */
export const searchSlowTexts: Attack = {
  name: "texts that are slow to search",
  play: async ({ count, random }) => {
    const words = Array.from({ length: Math.max(30, count / 25) }, (_, at) =>
      at % 3 === 0 ? (parts[random.below(parts.length)] ?? "a") : wordOf(random)
    )
    for (const word of ["a", ...words]) {
      // A collection of garbage disturbs short times; it does not disturb long ones as much. Long texts are searched in another way.
      for (const [name, use] of Object.entries(functions))
        if (isSlow(use, word, 1) && isSlow(use, word, 3) && isSlow(use, word, 3, 8 * small))
          return [`${name} takes more than linear time for repetitions of ${JSON.stringify(word)}`]
      // The honest client goes on meanwhile.
      await new Promise((resolve) => setImmediate(resolve))
    }
    return []
  }
}
