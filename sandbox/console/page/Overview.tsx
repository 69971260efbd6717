/** Who takes part, where nothing has happened yet. */
import { participantNames, participantRoles, participants } from "./Names.ts"
import { useStore } from "./Store.ts"

export const Overview = () => {
  const { system } = useStore()
  return (
    <div class="overview">
      <p>
        music-backend is one API for the clients of a music companion. It asks IAM who is calling, sends tings
        through Ting, and keeps reports and telemetry until they are delivered. It promises two things:
      </p>
      <ol>
        <li>Nothing accepted is ever lost or done twice.</li>
        <li>Nobody gets in who doesn’t belong.</li>
      </ol>
      <p>
        Try to break them. Each action shows here, with its request, its response and the calls between these:
      </p>
      <dl class="parties">
        {participants.map((name) => (
          <div key={name}>
            <dt>{participantNames[name]}</dt>
            <dd>{participantRoles[name]}</dd>
            <dd class="soft">{name === "console" ? location.origin : system.addresses[name]}</dd>
          </div>
        ))}
      </dl>
      <p>
        Begin in Callers: press “Get SLT” beside an actor, then “Log in”. The tour leads through the rest in
        six steps.
      </p>
    </div>
  )
}
