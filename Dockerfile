# The server, without npm, compilers and development packages: docs/operations.md, "Deploy".
# Both images can be replaced, for example by copies in a private registry. The second one needs glibc and libstdc++, and no shell.
ARG BUILD_IMAGE=docker.io/library/node:20.20.2-trixie
ARG RUNTIME_IMAGE=docker.io/library/debian:13.7-slim

FROM ${BUILD_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json ./
# The addon is compiled from the source that the lock file names: a prebuilt one has no checksum there. No other package needs its script.
RUN npm ci --ignore-scripts --no-audit --no-fund \
 && npm_config_build_from_source=true npm_config_nodedir=/usr/local npm rebuild better-sqlite3
COPY LICENSE ./
COPY scripts/build.mjs scripts/install.mjs scripts/pages.mjs scripts/undici.cjs scripts/
COPY sandbox sandbox
COPY src src
RUN node scripts/build.mjs && node scripts/install.mjs /app && mkdir /data

FROM ${RUNTIME_IMAGE}
LABEL org.opencontainers.image.title="music-backend" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="MIT"
COPY --from=build /usr/local/bin/node /usr/local/bin/node
COPY --from=build /app /app
# Owned by the user of the process, and so is a new volume that is mounted here. Everything else belongs to root.
COPY --from=build --chown=10001:10001 /data /data
ENV MUSIC_BIND=0.0.0.0:8787 \
    MUSIC_DATABASE_PATH=/data/music.sqlite
USER 10001:10001
WORKDIR /app
VOLUME /data
EXPOSE 8787
# Liveness alone: an engine that restarts what is unhealthy must not do so because of a database that is away.
HEALTHCHECK --interval=10s --timeout=5s --start-period=90s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.MUSIC_BIND.split(':').pop() + '/healthz').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "dist/main.js"]
