/** Small parts that several panels use. */
import { type ComponentChildren, Fragment } from "preact"
import { useState } from "preact/hooks"
import { shorten, visible } from "./Format.ts"
import { useStore } from "./Store.ts"
import { type Place, placeTitles, type Tone } from "./Names.ts"

/** A region of the page with a heading. The tour puts the focus on it. */
export const Panel = (props: {
  readonly id: Place
  readonly note?: ComponentChildren
  readonly children: ComponentChildren
}) => (
  <section id={props.id} class="panel" aria-labelledby={`${props.id}-title`} tabIndex={-1}>
    <header class="panel-head">
      <h2 id={`${props.id}-title`}>{placeTitles[props.id]}</h2>
      {props.note}
    </header>
    {props.children}
  </section>
)

export const Badge = ({ children, tone }: { readonly tone: Tone; readonly children: ComponentChildren }) => (
  <span class={`badge ${tone}`}>{children}</span>
)

/** Text from elsewhere: its direction stays its own, and it breaks after dots and slashes. */
export const Foreign = ({ text }: { readonly text: string }) => (
  <bdi>
    {visible(text)
      .split(/(?<=[./])/)
      .map((piece, index) => (
        // Pieces have no name but their place.
        <Fragment key={index}>
          {index > 0 && <wbr />}
          {piece}
        </Fragment>
      ))}
  </bdi>
)

/** A text of many lines from elsewhere. */
export const Visible = ({ text }: { readonly text: string }) => <pre>{visible(text)}</pre>

interface CopyButtonProps {
  readonly label: string
  readonly text: () => string
  /** What the text is, when it is a credential that is shown by its beginning. */
  readonly credential?: string
}

/** Copies the whole text, and says so. */
export const CopyButton = ({ credential, label, text }: CopyButtonProps) => {
  const { say } = useStore()
  const [state, setState] = useState<"idle" | "copied" | "failed">("idle")
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text())
      setState("copied")
      say("Copied.")
    } catch {
      setState("failed")
      say("The browser did not allow copying.")
    }
    setTimeout(() => setState("idle"), 2_000)
  }
  const shown = state === "idle" ? label : state === "copied" ? "Copied" : "Not allowed"
  return (
    <button
      type="button"
      class={credential === undefined ? "quiet" : "quiet token"}
      title={credential === undefined ? undefined : "Copy the whole token"}
      aria-label={credential === undefined ? undefined : `Copy ${credential}: ${shown}`}
      onClick={() => void copy()}
    >
      {credential === undefined ? shown : <code>{shown}</code>}
    </button>
  )
}

/** A credential by its beginning; pressed, it copies the whole. */
export const Token = ({ name, value }: { readonly name: string; readonly value: string }) => (
  <CopyButton label={shorten(value)} text={() => value} credential={name} />
)

/** How much of a span of time is left, as a bar. The text beside it says the same. */
export const LifeBar = (props: { readonly left: number; readonly whole: number; readonly label: string }) => {
  const share = props.whole <= 0 ? 0 : Math.min(1, Math.max(0, props.left / props.whole))
  return (
    <span
      class={`life ${share < 0.2 ? "low" : ""}`}
      role="img"
      aria-label={`${props.label}: ${Math.round(share * 100)} % left`}
    >
      <span style={{ width: `${share * 100}%` }} />
    </span>
  )
}
