/** Mutations of a body: of its value, of its text as JSON, of its bytes. */
import { gzipSync } from "node:zlib"
import type { Random } from "../../durability/Random.ts"
import { codePoints, textOfLength, utf16, utf8 } from "./Bounds.ts"
import { makeCanary } from "./Canary.ts"
import { type JsonSchema, resolve } from "./Contract.ts"
import { type Draft, setHeader } from "./Draft.ts"
import { isList, isMembers, type Json, object, RawText, toText } from "./JsonText.ts"
import type { Mutation } from "./Mutation.ts"
import { oddNumbers, pick, textOf, units } from "./Text.ts"

type Path = ReadonlyArray<string | number>

const pathsOf = (value: Json, path: Path = []): ReadonlyArray<Path> => [
  path,
  ...(isMembers(value)
    ? value.members.flatMap(([, member], at) => pathsOf(member, [...path, at]))
    : isList(value)
      ? value.flatMap((item, at) => pathsOf(item, [...path, at]))
      : [])
]

const at = (value: Json, [step, ...rest]: Path): Json => {
  if (step === undefined) return value
  const next = isMembers(value)
    ? value.members[Number(step)]?.[1]
    : isList(value)
      ? value[Number(step)]
      : null
  return at(next ?? null, rest)
}

const edit = (value: Json, [step, ...rest]: Path, change: (node: Json) => Json): Json => {
  if (step === undefined) return change(value)
  if (isMembers(value))
    return {
      members: value.members.map(([name, member], index) =>
        index === step ? [name, edit(member, rest, change)] : [name, member]
      )
    }
  return isList(value)
    ? value.map((item, index) => (index === step ? edit(item, rest, change) : item))
    : value
}

/** Names on the way, without positions of lists. */
const namesOf = (value: Json, path: Path): ReadonlyArray<string> => {
  const names: Array<string> = []
  let node = value
  for (const step of path) {
    if (isMembers(node)) names.push(node.members[Number(step)]?.[0] ?? "")
    node = at(node, [step])
  }
  return names
}

const schemaAt = (given: JsonSchema, names: ReadonlyArray<string>): JsonSchema => {
  const own = resolve(given)
  const schema = own.anyOf?.map(resolve).find(({ type }) => type !== "null") ?? own
  if (schema.type === "array") return names.length === 0 ? schema : schemaAt(schema.items ?? {}, names)
  const [name, ...rest] = names
  if (name === undefined) return schema
  const member = schema.properties?.[name]
  return member === undefined ? {} : schemaAt(member, rest)
}

/** Bounds that only the prose of docs/api.md has. */
const proseBounds: Readonly<Record<string, ReadonlyArray<number>>> = {
  "reports.submit message": [10, 20_000],
  "reports.submit context": [32_768],
  "tings.send key": [200],
  "auth.login slt": [1, 8_192],
  "auth.refresh refresh_token": [32, 8_192],
  "auth.logout token": [4_096, 8_192]
}

const boundsOf = ({ operation }: Draft, names: ReadonlyArray<string>): ReadonlyArray<number> => {
  const { maxLength, minLength } = schemaAt(operation?.body?.schema ?? {}, names)
  const found = [
    ...(minLength === undefined ? [] : [minLength]),
    ...(maxLength === undefined ? [] : [maxLength]),
    ...(proseBounds[`${operation?.id} ${names.join(".")}`] ?? [])
  ]
  return found.length === 0 ? [0, 1, 255, 1_000] : found
}

const measures = [codePoints, utf16, utf8] as const

const nodesWhere = (draft: Draft, fits: (node: Json, path: Path) => boolean): ReadonlyArray<Path> =>
  draft.value === undefined
    ? []
    : pathsOf(draft.value).filter((path) => fits(at(draft.value ?? null, path), path))

const anyOf = <A>(random: Random, items: ReadonlyArray<A>): A | undefined => items[random.below(items.length)]

/** Changes one node that fits; false when there is none. */
const onNode =
  (
    fits: (node: Json, path: Path) => boolean,
    change: (node: Json, draft: Draft, random: Random, names: ReadonlyArray<string>) => Json
  ): Mutation["apply"] =>
  (draft, random) => {
    const path = anyOf(random, nodesWhere(draft, fits))
    if (path === undefined || draft.value === undefined) return undefined
    const names = namesOf(draft.value, path)
    draft.value = edit(draft.value, path, (node) => change(node, draft, random, names))
    return names.join(".") || "body"
  }

const isText = (node: Json): node is string => typeof node === "string"

const nested = (levels: number, random: Random): Json => {
  // Of text, because a value of 10,000 levels would be walked by recursion.
  const list = random.below(2) === 0
  return new RawText(
    list ? "[".repeat(levels) + "]".repeat(levels) : `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`
  )
}

const valueMutations: ReadonlyArray<Mutation> = [
  {
    name: "another type",
    stage: "value",
    apply: onNode(
      () => true,
      (_, { index }, random) =>
        pick<Json>(random, [
          null,
          true,
          7,
          makeCanary("body", index),
          [],
          [makeCanary("body", index)],
          object({}),
          object({ length: 1 })
        ])
    )
  },
  {
    name: "field left out",
    stage: "value",
    apply: onNode(
      (node) => isMembers(node) && node.members.length > 0,
      (node, _, random) => {
        if (!isMembers(node)) return node
        const left = random.below(node.members.length)
        return { members: node.members.filter((_each, position) => position !== left) }
      }
    )
  },
  {
    name: "unknown field",
    stage: "value",
    apply: onNode(isMembers, (node, { index }, random) =>
      isMembers(node)
        ? {
            members: [
              ...node.members,
              [
                pick(random, [
                  makeCanary("name", index),
                  "__proto__",
                  "constructor",
                  "prototype",
                  "toString",
                  "hasOwnProperty",
                  "toJSON",
                  "then",
                  "length",
                  "",
                  `${makeCanary("name", index)}.${textOf(random, 150)}`
                ]),
                pick<Json>(random, [makeCanary("body", index), null, object({ admin: true })])
              ]
            ]
          }
        : node
    )
  },
  {
    name: "field twice",
    stage: "value",
    apply: onNode(
      (node) => isMembers(node) && node.members.length > 0,
      (node, { index }, random) => {
        if (!isMembers(node)) return node
        const [name, value] = node.members[random.below(node.members.length)] ?? ["a", null]
        const second: readonly [string, Json] = [
          name,
          pick<Json>(random, [value, makeCanary("body", index), 1])
        ]
        return { members: random.below(2) === 0 ? [second, ...node.members] : [...node.members, second] }
      }
    )
  },
  {
    name: "length at a bound",
    stage: "value",
    apply: onNode(isText, (node, draft, random, names) => {
      const bounds = boundsOf(draft, names)
      const length = Math.max(0, (anyOf(random, bounds) ?? 0) + random.below(3) - 1)
      const start =
        draft.operation?.id === "tings.send" && names[0] === "key"
          ? String(node)
          : names[0] === "slt" || names[0] === "type"
            ? ""
            : makeCanary("body", draft.index)
      return textOfLength(length, start, pick(random, units), pick(random, measures))
    })
  },
  {
    name: "spaces around a text",
    stage: "value",
    apply: onNode(isText, (node, _, random) => {
      const space = pick(random, [" ", "\n", "\t", "\u00a0", "\ufeff", "\u200b", "\u0000", "\u0085"])
      const count = 1 + random.below(12)
      return space.repeat(count) + String(node) + space.repeat(count)
    })
  },
  {
    name: "blank text",
    stage: "value",
    apply: onNode(isText, (_, __, random) =>
      pick(random, [" ", "\u200b", "\u3000", "\n"]).repeat(9 + random.below(3))
    )
  },
  {
    name: "text of all planes",
    stage: "value",
    apply: onNode(
      isText,
      (_, { index }, random) => makeCanary("body", index) + textOf(random, 1 + random.below(300))
    )
  },
  {
    name: "a character appended",
    stage: "value",
    apply: onNode(
      isText,
      (node, _, random) => String(node) + pick(random, [".", "A", "\u200b", "\u0000", "é"])
    )
  },
  {
    name: "letters in another case",
    stage: "value",
    apply: onNode(isText, (node) => String(node).toUpperCase())
  },
  {
    name: "number of items at a bound",
    stage: "value",
    apply: (draft, random) => {
      const path = anyOf(random, nodesWhere(draft, isList))
      if (path === undefined || draft.value === undefined) return undefined
      const names = namesOf(draft.value, path)
      const { maxItems, minItems } = schemaAt(draft.operation?.body?.schema ?? {}, names)
      const bounds = [
        ...(minItems === undefined ? [] : [minItems]),
        ...(maxItems === undefined ? [0, 100] : [maxItems])
      ]
      const length = Math.max(0, (anyOf(random, bounds) ?? 0) + random.below(3) - 1)
      draft.value = edit(draft.value, path, (node) => {
        const [first = null] = isList(node) ? node : []
        return Array.from({ length }, (_, position) =>
          position === 0 || !isMembers(first)
            ? first
            : // Each event would otherwise have the id of the first.
              { members: first.members.filter(([name]) => name !== "id") }
        )
      })
      return `${names.join(".")} ${length}`
    }
  },
  {
    name: "deep nesting",
    stage: "value",
    apply: onNode(
      (_, path) => path.length > 0,
      // The body itself is one to four levels more.
      (_, __, random) => nested(random.below(8) === 0 ? 10_000 : 59 + random.below(8), random)
    )
  },
  {
    name: "odd number",
    stage: "value",
    apply: onNode(
      (_, path) => path.length > 0,
      (_, __, random) => new RawText(pick(random, oddNumbers))
    )
  },
  {
    name: "context of about 32 KiB",
    stage: "value",
    apply: (draft, random) => {
      const { value } = draft
      if (draft.operation?.id !== "reports.submit" || value === undefined || !isMembers(value))
        return undefined
      const empty = toText(object({ canary: makeCanary("body", draft.index), text: "" })).length
      const text = textOfLength(32_767 + random.below(3) - empty, "", pick(random, units), utf8)
      draft.value = {
        members: [
          ...value.members.filter(([name]) => name !== "context"),
          ["context", object({ canary: makeCanary("body", draft.index), text })]
        ]
      }
      return "context"
    }
  },
  {
    name: "data of about 256 KiB",
    stage: "value",
    apply: (draft, random) => {
      const { operation, value } = draft
      if (operation?.id !== "tings.send" || value === undefined || !isMembers(value)) return undefined
      const size = 262_144 + (random.below(2) === 0 ? 600 : -2_000)
      const text = textOfLength(size, "", pick(random, units), utf8)
      draft.value = {
        members: [
          ...value.members.filter(([name]) => name !== "data" && name !== "metadata"),
          ["data", object({ text })]
        ]
      }
      return String(size)
    }
  },
  {
    name: "a testing key that was never issued",
    stage: "value",
    apply: (draft) => {
      const paths = nodesWhere(draft, (node) => typeof node === "string" && /^[A-Za-z0-9]{32}$/.test(node))
      const [path] = paths
      if (draft.operation?.id !== "webhooks.receive" || path === undefined || draft.value === undefined)
        return undefined
      draft.value = edit(draft.value, path, () => "0".repeat(32))
      return ""
    }
  },
  {
    name: "a credential in a text",
    stage: "value",
    apply: (draft, random, world) => {
      const path = anyOf(random, nodesWhere(draft, isText))
      // IAM signs no credential, and its events are kept as they are.
      if (path === undefined || draft.value === undefined || draft.sign !== undefined) return undefined
      const token = draft.session?.access ?? world.testingSecret
      draft.value = edit(
        draft.value,
        path,
        () =>
          `${makeCanary("body", draft.index)} ${pick(random, ["", "Authorization: Bearer ", "token="])}${token} end`
      )
      return namesOf(draft.value, path).join(".")
    }
  },
  {
    name: "an unknown ting type, table or pull request",
    stage: "value",
    apply: (draft, random) => {
      const { operation, value } = draft
      const names: Readonly<Record<string, readonly [string, readonly [string, ...ReadonlyArray<string>]]>> =
        {
          "tings.send": ["type", ["music.trigger.unknown", "constructor", "music.trigger.fired "]],
          "telemetry.accept": [
            "table",
            ["musicbackend", "__proto__", "constructor", "users", "musicclidaemon "]
          ],
          "reports.submit": [
            "pr",
            [
              "https://github.com/other/music/pull/1",
              "https://github.com/harbor/music/pull/0",
              "https://example.com/harbor/music/pull/1",
              "https://github.com:99999/harbor/music/pull/1",
              "http://github.com/harbor/music/pull/1",
              "javascript:alert(1)"
            ]
          ]
        }
      const found = names[operation?.id ?? ""]
      if (found === undefined || value === undefined || !isMembers(value)) return undefined
      const [name, values] = found
      draft.value = {
        members: [...value.members.filter(([each]) => each !== name), [name, pick(random, values)]]
      }
      return name
    }
  }
]

/** Replaces the first long enough text of the body, given without quotes, by other bytes. */
const inString = (draft: Draft, bytes: Buffer): boolean => {
  const { body } = draft
  const canary = makeCanary("body", draft.index)
  const found = body?.indexOf(canary) ?? -1
  if (body === undefined || found === -1) return false
  const end = found + canary.length
  draft.body = Buffer.concat([body.subarray(0, end), bytes, body.subarray(end)])
  return true
}

const text = (name: string, change: (body: Buffer, draft: Draft, random: Random) => Buffer): Mutation => ({
  name,
  stage: "text",
  apply: (draft, random) => {
    if (draft.body === undefined) return undefined
    draft.body = change(draft.body, draft, random)
    return ""
  }
})

const inText = (name: string, bytes: ReadonlyArray<readonly [string, Buffer]>): Mutation => ({
  name,
  stage: "text",
  apply: (draft, random) => {
    const [detail, chosen] = anyOf(random, bytes) ?? ["", Buffer.alloc(0)]
    return inString(draft, chosen) ? detail : undefined
  }
})

const bytes = (...values: ReadonlyArray<number>) => Buffer.from(values)

const textMutations: ReadonlyArray<Mutation> = [
  text("byte order mark", (body) => Buffer.concat([bytes(0xef, 0xbb, 0xbf), body])),
  text("text after the value", (body, { index }, random) =>
    Buffer.concat([body, Buffer.from(pick(random, [",", "{}", "\0", makeCanary("body", index), "//"]))])
  ),
  text("white space around", (body) => Buffer.concat([Buffer.from(" \r\n\t"), body, Buffer.from("\n \t\r")])),
  text("vertical tab before", (body) => Buffer.concat([bytes(0x0b), body])),
  text("trailing comma", (body) => Buffer.from(body.toString().replace(/}$/, ",}"))),
  text("single quotes", (body) => Buffer.from(body.toString().replaceAll('"', "'"))),
  text("cut short", (body, _, random) => body.subarray(0, random.below(body.length + 1))),
  text("empty", () => Buffer.alloc(0)),
  text("UTF-16", (body) => Buffer.from(body.toString(), "utf16le")),
  text("another value", (_, { index }, random) =>
    Buffer.from(
      pick(random, [
        "null",
        "[]",
        "0",
        '""',
        "{}",
        `"${makeCanary("body", index)}"`,
        "NaN",
        "undefined",
        "[[]]",
        "[".repeat(100_000),
        '{"__proto__":{"x":1}}',
        '{"\\u005f_proto__":1}',
        '{"constructor":{"prototype":{}}}'
      ])
    )
  ),
  text("gzip", (body) => gzipSync(body)),
  {
    name: "size at the bound",
    stage: "text",
    apply: (draft, random) => {
      const { body, operation } = draft
      if (body === undefined || operation?.body === undefined) return undefined
      const size = operation.body.maxBytes + random.below(3) - 1
      draft.body = Buffer.concat([body, Buffer.alloc(Math.max(0, size - body.length), " ")])
      // Without a declared length the body is refused while it arrives.
      const chunked = random.below(2) === 0
      if (chunked) draft.framing = { kind: "chunked", extension: "", trailer: "" }
      draft.last = true
      return `${draft.body.length}${chunked ? ", in chunks" : ""}`
    }
  },
  inText("lone surrogate", [
    ["escaped high", Buffer.from("\\ud800")],
    ["escaped low", Buffer.from("\\uDC00x")],
    ["escaped reversed", Buffer.from("\\udc00\\ud800")],
    ["as bytes", bytes(0xed, 0xa0, 0x80)]
  ]),
  inText("invalid UTF-8", [
    ["ff", bytes(0xff)],
    ["overlong", bytes(0xc0, 0x80)],
    ["cut", bytes(0xf0, 0x9f, 0x8e)],
    ["above U+10FFFF", bytes(0xf4, 0x90, 0x80, 0x80)],
    ["continuation", bytes(0x80)]
  ]),
  inText("control character", [
    ["NUL", bytes(0)],
    ["escape", bytes(0x1b)],
    ["line feed", bytes(0x0a)]
  ]),
  inText("escapes", [
    ["NUL", Buffer.from("\\u0000")],
    ["pair", Buffer.from("\\ud834\\udd1e")],
    ["slash", Buffer.from('\\/\\"\\\\')],
    ["unknown", Buffer.from("\\x41")],
    ["short", Buffer.from("\\u12")]
  ]),
  inText("invisible characters", [
    ["joiners", Buffer.from("\u200b\u200d\u2060\ufeff")],
    ["directions", Buffer.from("\u202e\u2066")],
    ["tags", Buffer.from("\u{e0041}\u{e007f}")]
  ])
]

/** After the signature, so that it does not fit any more. */
const signedMutations: ReadonlyArray<Mutation> = [
  {
    name: "body changed after its signature",
    stage: "signed",
    apply: (draft, random) => {
      if (draft.sign === undefined || draft.body === undefined || draft.body.length === 0) return undefined
      const changed = Buffer.from(draft.body)
      const position = random.below(changed.length)
      changed[position] = (changed[position] ?? 0) ^ 1
      draft.body = changed
      return ""
    }
  }
]

/** `Content-Encoding` beside a body that is encoded, or not. */
const codingMutations: ReadonlyArray<Mutation> = [
  {
    name: "content coding",
    stage: "head",
    apply: (draft, random) => {
      if (draft.body === undefined) return undefined
      const coding = pick(random, ["gzip", "identity", "Identity", "br", "", "gzip, identity"])
      if (coding === "gzip") draft.body = gzipSync(draft.body)
      setHeader(draft, "Content-Encoding", coding)
      return coding
    }
  }
]

export const bodyMutations: ReadonlyArray<Mutation> = [
  ...valueMutations,
  ...textMutations,
  ...signedMutations,
  ...codingMutations
]
