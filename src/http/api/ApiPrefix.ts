/** The paths of the calls that belong to this version of the API; probes, documents and the webhook have others. */
export const apiPrefix = "/api/v1/"
