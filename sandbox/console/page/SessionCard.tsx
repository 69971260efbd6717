/** One login: its state, the life of its access token, and what its owner, or a thief, can do with it. */
import { useState } from "preact/hooks"
import type { Session } from "../Protocol.ts"
import { ActionButton, ProblemNote, useActing } from "./Acting.tsx"
import { Options } from "./Fields.tsx"
import { countdown, days } from "./Format.ts"
import { sessionEnds, sessionStates, shortId, type Tone } from "./Names.ts"
import { Badge, LifeBar, Token } from "./Parts.tsx"
import { useNow } from "./Store.ts"

const tones: Readonly<Record<Session["status"], Tone>> = {
  active: "good",
  expired: "warn",
  ended: "plain",
  compromised: "bad"
}

/** What its owner, or a thief, does with the refresh token. */
const deeds = [
  ["refresh", "Refresh", "Exchange the refresh token for a new pair"],
  [
    "replayRefresh",
    "Replay refresh",
    "The spent token under its old key, as a retry sends it: the same pair"
  ],
  ["reuseRefresh", "Reuse spent", "The spent token under a new key, as a thief sends it: ends the login"],
  ["logout", "Log out", "Revoke the refresh token, which ends the login"]
] as const

const AccessLife = ({ session }: { readonly session: Session }) => {
  const now = useNow()
  const left = session.accessExpiresAt - now
  const family = session.familyExpiresAt - now
  return (
    <div class="access">
      <Token
        name={`access token of ${session.actor}, session ${shortId(session.id)}`}
        value={session.accessToken}
      />
      <LifeBar left={left} whole={session.accessExpiresAt - session.accessIssuedAt} label="Access token" />
      <span class="left">{left > 0 ? countdown(left) : "expired"}</span>
      <small class="soft">
        {left > 0 ? `login lasts ${days(family)}` : "The access token is too old. Refresh to get a new one."}
      </small>
    </div>
  )
}

export const SessionCard = ({ session }: { readonly session: Session }) => {
  const acting = useActing()
  const [org, setOrg] = useState(session.organizations[0] ?? "")
  const { actor, id, spentRefreshToken } = session
  const now = useNow()
  // The server says so too, but later.
  const isOver = session.status === "active" && session.accessExpiresAt <= now
  const status = isOver ? "expired" : session.status
  const of = `${actor}, session ${shortId(id)}`
  const isUsable = status === "active" || status === "expired"
  // Later the person opens and closes it: a card that closed by itself would take the focus with it.
  const [isOpenAtFirst] = useState(isUsable)
  const needsSpent =
    spentRefreshToken === null
      ? "There is no spent refresh token yet. Press Refresh first: it spends one."
      : null
  return (
    <li>
      <details class={`session ${status}`} open={isOpenAtFirst}>
        <summary>
          <strong>{actor}</strong>
          <span class="soft">session {shortId(id)}</span>
          <Badge tone={tones[status]}>{sessionStates[status]}</Badge>
        </summary>
        {isUsable ? <AccessLife session={session} /> : <p class="soft">{sessionEnds[status]}</p>}
        <div class="owner">
          {deeds.map(([kind, label, title]) => (
            <ActionButton
              key={kind}
              acting={acting}
              kind={kind === "reuseRefresh" ? "danger" : undefined}
              label={label}
              of={of}
              title={title}
              unavailable={kind === "replayRefresh" || kind === "reuseRefresh" ? needsSpent : null}
              action={() => ({ kind, session: id })}
            />
          ))}
          <ActionButton
            acting={acting}
            label="Who am I"
            of={of}
            title="Ask the service what it knows of this token, in this organisation"
            action={() => ({ kind: "me", session: id, org })}
          />
          <select
            aria-label={`Organisation for Who am I, ${of}`}
            value={org}
            onChange={(event) => setOrg(event.currentTarget.value)}
          >
            {session.organizations.length === 0 && <option value="">none</option>}
            <Options of={session.organizations} />
          </select>
        </div>
        {needsSpent !== null && isUsable && (
          <p class="hint">Replay and reuse need a spent refresh token: refresh first.</p>
        )}
        <ProblemNote acting={acting} />
      </details>
    </li>
  )
}
