/** The events that IAM sends to an application (docs/contracts/identity-service.md 11.5), as the console offers them. */
import type { WebhookEvent } from "./Protocol.ts"

/** What is true at IAM once the event is sent, beside what it says. */
type Change = "removed" | "restored" | "loggedOut"

/** What its data describes: one member, a resource of the organisation, the resource with all members, and so on. */
type About = "member" | "resource" | "resourceAndMembers" | "organization" | "profile" | "session" | "app"

export interface WebhookType extends WebhookEvent {
  readonly about: About
  readonly change: Change | null
}

const recorded = "the service only records it"

/** Of a member of that kind. */
const member =
  (group: string, actorKind: "silicon" | "carbon") =>
  (type: string, meaning: string, change: "removed" | "restored" | null = null): WebhookType => ({
    type,
    group,
    meaning: `${meaning}; ${change === "removed" ? "the service ends its registration at Ting" : recorded}`,
    actorKind,
    hasOrganization: true,
    about: "member",
    change
  })

const silicon = member("Silicons", "silicon")
const carbon = member("Members", "carbon")

const organization =
  (group: string) =>
  (type: string, meaning: string, about: About = "resource"): WebhookType => ({
    type,
    group,
    meaning: `${meaning}; ${recorded}`,
    actorKind: null,
    hasOrganization: true,
    about,
    change: null
  })

const profile = organization("Organisations")
const tag = organization("Tags")
const trust = organization("Trust")
const invitation = organization("Invitations")
const governance = organization("Governance")

export const webhookTypes: ReadonlyArray<WebhookType> = [
  silicon("organization.silicon.updated.v1", "a Silicon's entry has changed"),
  silicon("organization.silicon.removed.v1", "a Silicon was removed from its organisation", "removed"),
  silicon("organization.silicon.created.v1", "a Silicon was added to the organisation", "restored"),
  silicon("organization.silicon.credential_rotated.v1", "a Silicon has a new key"),
  carbon("organization.membership.updated.v1", "a member's entry has changed"),
  carbon("organization.membership.removed.v1", "a Carbon left the organisation", "removed"),
  carbon("organization.membership.reactivated.v1", "a Carbon came back", "restored"),
  carbon("organization.membership.created.v1", "a Carbon joined the organisation", "restored"),
  carbon("organization.membership.authorization_updated.v1", "a member's capabilities have changed"),
  carbon("organization.ownership_transferred.v1", "the organisation has a new owner"),
  carbon("organization.admin.promoted.v1", "a member became an admin"),
  carbon("organization.admin.demoted.v1", "a member is no longer an admin"),
  {
    type: "carbon.updated.v1",
    group: "Carbons and their sessions",
    meaning: `a Carbon's profile has changed; ${recorded}`,
    actorKind: "carbon",
    hasOrganization: false,
    about: "profile",
    change: null
  },
  {
    type: "session.logout.v1",
    group: "Carbons and their sessions",
    meaning: `a Carbon logged out at IAM, and all tokens of that session are dead; ${recorded}, because it asks IAM at every call`,
    actorKind: "carbon",
    hasOrganization: false,
    about: "session",
    change: "loggedOut"
  },
  profile("organization.updated.v1", "the organisation's profile has changed", "organization"),
  profile("organization.created.v1", "an organisation was created"),
  tag("organization.tag_created.v1", "a tag was defined"),
  tag("organization.tag_updated.v1", "a tag was changed", "resourceAndMembers"),
  tag("organization.tag_archived.v1", "a tag was archived", "resourceAndMembers"),
  trust("organization.trust.default_updated.v1", "the usual trust has changed", "resourceAndMembers"),
  trust("organization.trust.rule_created.v1", "a rule of trust was made"),
  trust("organization.trust.rule_updated.v1", "a rule of trust was changed", "resourceAndMembers"),
  trust("organization.trust.rule_archived.v1", "a rule of trust was archived", "resourceAndMembers"),
  invitation("organization.invitation.created.v1", "somebody was invited"),
  invitation("organization.invitation.accepted.v1", "an invitation was accepted"),
  invitation("organization.invitation.revoked.v1", "an invitation was withdrawn"),
  governance("organization.role_change.requested.v1", "a new role was requested"),
  governance("organization.tag_change.requested.v1", "a new tag was requested"),
  governance("organization.approval.decided.v1", "a request was decided"),
  {
    type: "application.updated.v1",
    group: "The application",
    meaning: `the application itself has changed; ${recorded} (IAM's contract leaves the exact names open: this one is an example)`,
    actorKind: null,
    hasOrganization: false,
    about: "app",
    change: null
  }
]

/** As the page shows them. */
export const webhookEvents: ReadonlyArray<WebhookEvent> = webhookTypes.map(
  ({ actorKind, group, hasOrganization, meaning, type }) => ({
    type,
    group,
    meaning,
    actorKind,
    hasOrganization
  })
)
