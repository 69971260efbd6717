/** The actors of the plane: who can log in, and the tokens that they got for it. */
import { ActionButton, type Acting, ProblemNote, useActing } from "./Acting.tsx"
import { countdown } from "./Format.ts"
import type { Actor, Slt } from "../Protocol.ts"
import { placeTitles, planeName } from "./Names.ts"
import { LifeBar, Panel, Token } from "./Parts.tsx"
import { SessionCard } from "./SessionCard.tsx"
import { planeOf, sessionsOf, useNow, useStore } from "./Store.ts"

/** Milliseconds. */
const sltLife = 120_000

/** SLTs of an actor that the page shows. */
const shownSlts = 3

const SltRow = ({ acting, slt }: { readonly acting: Acting; readonly slt: Slt }) => {
  const left = slt.expiresAt - useNow()
  return (
    <li class="slt">
      <Token name={`SLT of ${slt.actor}`} value={slt.token} />
      <LifeBar left={left} whole={sltLife} label="SLT" />
      <span class="left">{left > 0 ? countdown(left) : "expired"}</span>
      <ActionButton
        acting={acting}
        kind={left > 0 ? "main" : undefined}
        label="Log in"
        of={`as ${slt.actor}`}
        title={left > 0 ? "Exchange the SLT for a session" : "It is too old: see how it is refused"}
        action={() => ({ kind: "login", plane: slt.plane, slt: slt.token })}
      />
    </li>
  )
}

const ActorRow = ({ actor, acting }: { readonly acting: Acting; readonly actor: Actor }) => {
  const { system } = useStore()
  const slts = system.slts.filter((slt) => slt.plane === actor.plane && slt.actor === actor.publicId)
  return (
    <li class="actor">
      <div class="row">
        <strong>{actor.publicId}</strong>
        <span class="soft">
          {actor.publicId.startsWith("si:") ? "silicon" : "carbon"} in{" "}
          {actor.organizations.join(", ") || "no organisation"}
        </span>
        <ActionButton
          acting={acting}
          label="Get SLT"
          of={`for ${actor.publicId}`}
          title="Ask IAM for a short-lived token, valid once and for two minutes"
          action={() => ({ kind: "mint", plane: actor.plane, actor: actor.publicId })}
        />
      </div>
      {slts.length > 0 && (
        <ul class="plain">
          {slts.slice(0, shownSlts).map((slt) => (
            <SltRow key={slt.token} acting={acting} slt={slt} />
          ))}
          {slts.length > shownSlts && <li class="soft">and {slts.length - shownSlts} more</li>}
        </ul>
      )}
    </li>
  )
}

export const Callers = () => {
  const { model, system } = useStore()
  const acting = useActing()
  const plane = planeOf(model)
  const sessions = sessionsOf(model)
  const live = sessions.filter(({ status }) => status === "active").length
  return (
    <Panel id="callers" note={<span class="soft">{plane === undefined ? "" : planeName(plane)}</span>}>
      <ProblemNote acting={acting} />
      <p class="hint">A silicon (si:…) is a machine’s identity, a carbon (c:…) a person’s.</p>
      <ul class="plain">
        {system.actors
          .filter((actor) => actor.plane === model.plane)
          .map((actor) => (
            <ActorRow key={actor.publicId} acting={acting} actor={actor} />
          ))}
      </ul>
      <section id="sessions" aria-labelledby="sessions-title" tabIndex={-1}>
        <h3 id="sessions-title">
          {placeTitles.sessions} <span class="soft">{live} active</span>
        </h3>
        {sessions.length === 0 && (
          <p class="empty">No session yet. Get an SLT for an actor above, then log in with it.</p>
        )}
        <ul class="plain sessions">
          {sessions.map((session) => (
            <SessionCard key={session.id} session={session} />
          ))}
        </ul>
      </section>
    </Panel>
  )
}
