/** Terms, in a dialog. */
import { useEffect, useRef } from "preact/hooks"

const terms = {
  IAM: "The identity service. It knows the actors and issues all tokens.",
  Actor: "Who calls: a machine (silicon, si:…) or a person (carbon, c:…).",
  SLT: "A short-lived token: valid once and for two minutes. A login exchanges it for a session.",
  "Access token": "Opens calls, for a short time. IAM is asked at every call whether it is live.",
  "Refresh token": "Gets the next pair of tokens, once. Then it is spent.",
  Family: "All tokens of one login. Reuse of a spent token ends all of them.",
  "Idempotency key":
    "Names one intention. A request that is repeated under its key is answered as before, and done once.",
  Ting: "A notification to an actor; also the service that delivers it.",
  "Tables, tracker": "Where telemetry and reports go, by background delivery, after they were accepted.",
  Plane: "Production, or an isolated testing environment. Nothing crosses from one to another."
}

export const Help = ({ onClose }: { readonly onClose: () => void }) => {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current?.showModal(), [])
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="help-title">
      <div class="row">
        <h2 id="help-title" class="grow">
          Help
        </h2>
        <button type="button" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </div>
      <p>
        This page acts as the clients of music-backend, and shows the calls of your own programs, too. The
        service is the real one; IAM, Ting, tables and tracker are simulated on this machine, and no data
        leaves it.
      </p>
      <dl class="terms">
        {Object.entries(terms).map(([term, meaning]) => (
          <div key={term}>
            <dt>{term}</dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </dialog>
  )
}
