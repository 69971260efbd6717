/** A request with its response. Credentials are shortened; copying gives the whole value. */
import type { Exchange } from "../Protocol.ts"
import { Foreign, Visible } from "./Parts.tsx"
import { pathOf, plural, prettyJson, shorten } from "./Format.ts"

/** Headers that carry the meaning of a call. */
const notable = /signature|idempotency|authorization|retry-after|testing-environment|x-org-id/

const HeaderList = ({ headers }: { readonly headers: ReadonlyArray<readonly [string, string]> }) => (
  <dl class="headers">
    {headers.map(([name, value]) => (
      <div key={name}>
        <dt>{name}</dt>
        <dd>
          <Foreign text={shorten(value)} />
        </dd>
      </div>
    ))}
  </dl>
)

const Body = ({ text }: { readonly text: string }) =>
  text === "" ? <p class="empty">No body.</p> : <Visible text={shorten(prettyJson(text))} />

const Message = (props: { readonly headers: Exchange["requestHeaders"]; readonly body: string }) => {
  const headers = Object.entries(props.headers)
  const others = headers.filter(([name]) => !notable.test(name))
  return (
    <>
      <HeaderList headers={headers.filter(([name]) => notable.test(name))} />
      <Body text={props.body} />
      {others.length > 0 && (
        <details>
          <summary class="soft">{plural(others.length, "other header")}</summary>
          <HeaderList headers={others} />
        </details>
      )}
    </>
  )
}

export const ExchangeView = ({ exchange }: { readonly exchange: Exchange }) => (
  <div class="exchange">
    <section aria-label="Request">
      <h4>
        Request{" "}
        <code>
          {exchange.method} <Foreign text={pathOf(exchange.url)} />
        </code>
      </h4>
      <Message headers={exchange.requestHeaders} body={exchange.requestBody ?? ""} />
    </section>
    <section aria-label="Response">
      <h4>
        Response <code>{exchange.status ?? "no answer"}</code>
      </h4>
      <Message headers={exchange.responseHeaders} body={exchange.responseBody} />
    </section>
  </div>
)
