/** A part of the page that acts: it knows whether an answer is awaited, and shows why an action was not carried out. */
import { useState } from "preact/hooks"
import type { Action, Refusal } from "../Protocol.ts"
import { sentence } from "./Format.ts"
import { useStore } from "./Store.ts"

export const useActing = () => {
  const store = useStore()
  /** The label of the button whose answer is awaited. */
  const [busy, setBusy] = useState<string | null>(null)
  const [problem, refuse] = useState<Refusal | null>(null)
  const act = async (label: string, action: Action) => {
    setBusy(label)
    refuse(null)
    refuse(await store.act(action))
    setBusy(null)
  }
  return { busy, problem, refuse, act: (label: string, action: Action) => void act(label, action) }
}

export type Acting = ReturnType<typeof useActing>

interface ActionButtonProps {
  readonly acting: Acting
  readonly label: string
  /** What it does on hover, where the label is short. */
  readonly title?: string
  /** Tells buttons with the same label apart; follows the label. */
  readonly of?: string
  readonly action: () => Action | null
  /** Why it cannot be pressed now, and what to do. It stays reachable, so that the reason is too. */
  readonly unavailable?: string | null
  readonly kind?: "main" | "danger" | undefined
}

export const ActionButton = ({ acting, action, kind, label, of, title, unavailable }: ActionButtonProps) => {
  const name = of === undefined ? label : `${label}, ${of}`
  const isBusy = acting.busy === name
  const press = () => {
    if (isBusy) return
    if (unavailable) return acting.refuse({ message: `“${label}” is not possible now.`, hint: unavailable })
    const wanted = action()
    if (wanted !== null) acting.act(name, wanted)
  }
  return (
    <button
      type="button"
      class={kind}
      aria-label={of === undefined ? undefined : name}
      aria-disabled={unavailable ? "true" : undefined}
      aria-busy={isBusy}
      title={unavailable ?? title}
      onClick={press}
    >
      {label}
    </button>
  )
}

/** Why an action was not carried out, and what to do. Always there, so that screen readers announce what it comes to hold. */
export const ProblemNote = ({ acting: { problem, refuse } }: { readonly acting: Acting }) => (
  <div role="alert">
    {problem !== null && (
      <div class="problem">
        <p>
          <strong>{sentence(problem.message)}</strong> {sentence(problem.hint)}
        </p>
        <button type="button" class="quiet" onClick={() => refuse(null)}>
          Dismiss
        </button>
      </div>
    )}
  </div>
)
