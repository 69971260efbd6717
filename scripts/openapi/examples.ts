/** The examples of docs/api.md as text: the request and the answer of each call. */
import * as OpenApi from "@effect/platform/OpenApi"
import { Api } from "../../src/http/Api.ts"
import { type Example, exampleOf } from "../../src/http/openapi/Examples.ts"

const json = (value: unknown): string => JSON.stringify(value, null, 2)

const headersOf = ({ parameters, security }: OpenApi.OpenAPISpecOperation): ReadonlyArray<string> => [
  ...(security.some((scheme) => "bearer" in scheme) ? ["Authorization: Bearer <access token>"] : []),
  ...parameters.flatMap((parameter) =>
    "name" in parameter && parameter.in === "header" && parameter.required ? [`${parameter.name}: …`] : []
  )
]

const render = (
  method: string,
  path: string,
  operation: OpenApi.OpenAPISpecOperation,
  { request, response }: Example
): string =>
  [
    "```http",
    `${method.toUpperCase()} ${path}`,
    ...headersOf(operation),
    ...(request === undefined ? [] : ["", json(request)]),
    "```",
    ...(response === undefined ? ["", "204, without a body."] : ["```json", json(response), "```"])
  ].join("\n")

/** By operation id. */
const examples = (): ReadonlyMap<string, string> =>
  new Map(
    Object.entries(OpenApi.fromApi(Api).paths).flatMap(([path, item]) =>
      Object.entries(item).flatMap(([method, operation]): ReadonlyArray<[string, string]> => {
        const example = exampleOf(operation.operationId)
        return example === undefined
          ? []
          : [[operation.operationId, render(method, path, operation, example)]]
      })
    )
  )

/** docs/api.md with its examples replaced: each is between its mark and the end of it. */
export const renderExamples = (current: string): string => {
  const known = examples()
  return current.replace(
    /(<!-- example: (\S+) -->\n).*?(<!-- end of example -->)/gs,
    (_, mark: string, id: string, end: string) => `${mark}\n${known.get(id) ?? ""}\n\n${end}`
  )
}
