/** Shortcuts and terms, in a dialog. */
import { useEffect, useRef } from "preact/hooks"

const shortcuts: ReadonlyArray<readonly [string, string]> = [
  ["1 … 5", "Go to Callers, Do, What happened, World, Faults"],
  ["p", "Next plane"],
  ["r", "Send the shown action again"],
  ["t", "Open or close the tour"],
  ["?", "This help"],
  ["Escape", "Close the help; outside of a field, close the tour"],
  ["↑ ↓", "Next and previous action, in the list of actions"],
  ["← →", "Next and previous form in Do; next plane in the plane switch"]
]

const terms: ReadonlyArray<readonly [string, string]> = [
  ["IAM", "The identity service. It knows the actors and issues all tokens."],
  ["Actor", "Who calls: a machine (silicon, si:…) or a person (carbon, c:…)."],
  ["SLT", "A short-lived token: valid once and for two minutes. A login exchanges it for a session."],
  ["Access token", "Opens calls, for a short time. IAM is asked at every call whether it is live."],
  ["Refresh token", "Gets the next pair of tokens, once. Then it is spent."],
  ["Family", "All tokens of one login. Reuse of a spent token ends all of them."],
  [
    "Idempotency key",
    "Names one intention. A request that is repeated under its key is answered as before, and done once."
  ],
  ["Ting", "A notification to an actor; also the service that delivers it."],
  ["Tables, tracker", "Where telemetry and reports go, by background delivery, after they were accepted."],
  ["Plane", "Production, or an isolated testing environment. Nothing crosses from one to another."]
]

export const Help = (props: {
  readonly onClose: () => void
  readonly hasShortcuts: boolean
  readonly onShortcuts: (wanted: boolean) => void
}) => {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current?.showModal(), [])
  return (
    <dialog ref={dialog} onClose={props.onClose} aria-labelledby="help-title">
      <div class="row">
        <h2 id="help-title" class="grow">
          Help
        </h2>
        <button type="button" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </div>
      <p>
        This page acts as the clients of music-backend. The service is the real one; IAM, Ting, tables and
        tracker are simulated on this machine, and no data leaves it. Two promises to try: nothing accepted is
        ever lost or done twice, and nobody gets in who doesn’t belong.
      </p>
      <h3>Shortcuts</h3>
      <dl class="terms">
        {shortcuts.map(([keys, meaning]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <label class="switch">
        <input
          type="checkbox"
          checked={props.hasShortcuts}
          onChange={(change) => props.onShortcuts(change.currentTarget.checked)}
        />
        <span>Single keys are shortcuts</span>
      </label>
      <h3>Terms</h3>
      <dl class="terms">
        {terms.map(([term, meaning]) => (
          <div key={term}>
            <dt>{term}</dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </dialog>
  )
}
