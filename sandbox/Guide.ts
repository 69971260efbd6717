import type { Sandbox } from "./Run.ts"
import { mintSlt, viewUrls } from "./SimulatedUpstreams.ts"

/** The text that the sandbox prints: addresses, and curl lines to paste in the order of the scenario. */
export const guide = ({ world, base, databasePath }: Sandbox, console: string): string => {
  const urls = viewUrls(world)
  const { environment } = world.seeded
  return `Open ${console} to see the whole system on one page, and to try it.

music-backend sandbox: everything runs on loopback, and no data leaves this machine. Ctrl-C stops it and removes its data.

  server          ${base}
  identity (IAM)  ${world.iam.url}
  notifications   ${world.ting.url}
  tables          ${world.tables.url}
  issue tracker   ${world.tracker.url}
  database        ${databasePath}

A short-lived token for si:deejay, valid once and for two minutes:

  ${mintSlt(world)}

Paste these commands in this order:

  BASE=${base}; IAM=${world.iam.url}

  # describe the service
  curl -sw '\\n' $BASE/api/v1/iam

  # mint a token, log in, keep the session
  SLT=$(curl -s -X POST $IAM/_sandbox/slt | sed 's/.*"slt":"\\([^"]*\\)".*/\\1/')
  SESSION=$(curl -s $BASE/api/v1/auth/login -H 'Content-Type: application/json' -H "Idempotency-Key: login-$SLT" -d "{\\"slt\\":\\"$SLT\\"}"); echo $SESSION
  TOKEN=$(echo $SESSION | sed 's/.*"access_token":"\\([^"]*\\)".*/\\1/')
  REFRESH=$(echo $SESSION | sed 's/.*"refresh_token":"\\([^"]*\\)".*/\\1/')

  # show the session
  curl -sw '\\n' $BASE/api/v1/auth/me -H "Authorization: Bearer $TOKEN" -H 'X-Org-ID: acme'

  # send a ting; a retry is replayed
  curl -sw '\\n' $BASE/api/v1/tings -H "Authorization: Bearer $TOKEN" -H 'X-Org-ID: acme' -H 'Content-Type: application/json' -d '{"type":"music.trigger.fired","key":"si:deejay/first","data":{"hello":"world"}}'
  curl -sw '\\n' '${urls.inbox}'

  # report a bug, and list the issue
  curl -sw '\\n' $BASE/api/v1/reports -H 'Content-Type: application/json' -H 'Idempotency-Key: report-0000000001' -d '{"message":"Playback stops after a seek near the end of a track."}'
  curl -sw '\\n' '${urls.issues}' -H 'Authorization: Bearer ${world.trackerToken}' -H 'Accept: application/vnd.github+json'

  # send telemetry, and list the row (shipped within two seconds)
  curl -siw '\\n' $BASE/api/v1/telemetry -H 'Content-Type: application/json' -d '{"table":"musicclidaemon","events":[{"type":"playback.track.started","data":{}}]}'; sleep 2
  curl -sw '\\n' '${urls.rows("musicclidaemon")}'

  # let IAM send a signed webhook
  curl -sw '\\n' -X POST $IAM/_sandbox/events -d '{"actor":"si:lyra","org":"acme","event_type":"organization.silicon.updated.v1"}'

  # a testing plane: the same calls with its secret; a public id replaces the token
  curl -sw '\\n' $BASE/api/v1/auth/login -H 'X-Testing-Environment-Key: ${environment.musicSecret}' -H 'Content-Type: application/json' -H 'Idempotency-Key: testing-00000000001' -d '{"slt":"si:deejay"}'

  # inject failures: the next three calls of the login route at IAM answer 503
  curl -sw '\\n' -X POST $IAM/_sandbox/faults -d '{"path":"/api/v1/app-auth/tokens","times":3,"fault":"serviceUnavailable"}'

  # log out
  curl -siw '\\n' $BASE/api/v1/auth/logout -H 'Content-Type: application/json' -H 'Idempotency-Key: logout-0000000001' -d "{\\"token\\":\\"$REFRESH\\"}"

The whole scenario: npm run sandbox -- --walk
`
}
