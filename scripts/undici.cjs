/**
 * What the bundles hold of undici: connections and requests. Its index also loads fetch, web sockets, caches and mocks: 4 MiB of an
 * idle server, and a twentieth of its start.
 */
const Dispatcher = require("undici/lib/dispatcher/dispatcher")

Object.assign(Dispatcher.prototype, require("undici/lib/api"))

module.exports = {
  // The layer of the library that makes a pool by itself.
  Agent: require("undici/lib/dispatcher/agent"),
  Dispatcher,
  EnvHttpProxyAgent: require("undici/lib/dispatcher/env-http-proxy-agent"),
  Pool: require("undici/lib/dispatcher/pool")
}
