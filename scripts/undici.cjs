/**
 * What the bundles hold of undici: connections and requests. Its index also loads fetch, web sockets, caches and mocks: 4 MiB of an
 * idle server, and a twentieth of its start.
 */
const Agent = require("undici/lib/dispatcher/agent")
const Dispatcher = require("undici/lib/dispatcher/dispatcher")

Object.assign(Dispatcher.prototype, require("undici/lib/api"))

module.exports = {
  Agent,
  Dispatcher,
  buildConnector: require("undici/lib/core/connect"),
  errors: require("undici/lib/core/errors")
}
