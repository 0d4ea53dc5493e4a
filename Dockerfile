# The image of the gateway. Build it with:  docker build -t mdx-gateway .
# Build arguments for its labels: VERSION, REVISION, SOURCE (where the sources are).
# (with buildah add --format docker, or the health check is dropped)
#
# Two optional build secrets serve networks in which the registry is not reached directly:
#   --secret id=npmrc,src=$HOME/.npmrc      settings and logins of npm
#   --secret id=ca,src=/path/to/bundle.pem  certificate authorities beside those Node brings
# They are mounted for one command each and never become part of a layer.

# Any image with glibc, Node 24 or newer and npm will do.
ARG BASE_IMAGE=docker.io/library/node:24-bookworm-slim

FROM ${BASE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# No install script runs: the bundler needs none, and none may reach beyond the registry.
RUN --mount=type=secret,id=npmrc,target=/root/.npmrc \
    --mount=type=secret,id=ca,target=/run/secrets/ca.pem \
    if [ -s /run/secrets/ca.pem ]; then export NODE_EXTRA_CA_CERTS=/run/secrets/ca.pem; fi; \
    npm ci --ignore-scripts --no-audit --no-fund --cache /tmp/npm-cache \
    && rm -rf /tmp/npm-cache
COPY scripts/*.ts ./scripts/
COPY src ./src
# Maps are for those who develop; the same sources give the same ones again.
RUN npm run build && find dist -name '*.map' -delete && npm run --silent sbom >sbom.cdx.json

FROM ${BASE_IMAGE} AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# bcrypt brings its binaries in the package; loading it here fails the build, not the first login.
# What only compilers and debuggers read is a third of all.
RUN --mount=type=secret,id=npmrc,target=/root/.npmrc \
    --mount=type=secret,id=ca,target=/run/secrets/ca.pem \
    if [ -s /run/secrets/ca.pem ]; then export NODE_EXTRA_CA_CERTS=/run/secrets/ca.pem; fi; \
    npm ci --omit=dev --ignore-scripts --no-audit --no-fund --cache /tmp/npm-cache \
    && rm -rf /tmp/npm-cache \
    && find node_modules -type f \( -name '*.map' -o -name '*.ts' -o -name '*.cts' -o -name '*.mts' \) -delete \
    && node -e "require('bcrypt')"

FROM ${BASE_IMAGE} AS gateway
WORKDIR /app
COPY --from=dependencies /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY bin ./bin
COPY --from=build /app/sbom.cdx.json ./
COPY package.json LICENSE ./
COPY config/example-docker.yaml /etc/mdx-gateway/config.yaml

# Keeps the program compiled, as the user who will run it: the first start finds it as every later one elsewhere does.
# Nobody but root may change it afterwards.
RUN mkdir -p node_modules/.cache/mdx-gateway && chown 10001:10001 node_modules/.cache/mdx-gateway
USER 10001:10001
RUN bin/mdx-gateway demo --once
USER root
RUN chown -R root:root node_modules/.cache && chmod -R a+rX node_modules/.cache

# Roles and datasets are kept here (storage.path); everything else is read-only for the image's user.
RUN mkdir -p /var/lib/mdx-gateway && chown 10001:10001 /var/lib/mdx-gateway
VOLUME /var/lib/mdx-gateway

ENV NODE_ENV=production
EXPOSE 7080
# By number, so that an orchestrator can see that it is not root. Nothing but the volume is writable for it.
USER 10001:10001
STOPSIGNAL SIGTERM
# PORT is what the configuration of this image reads. Name the whole address in MDX_GATEWAY_HEALTH_URL where
# another configuration listens elsewhere or speaks HTTPS (with NODE_EXTRA_CA_CERTS for its authority).
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["node", "-e", "fetch(process.env.MDX_GATEWAY_HEALTH_URL || `http://127.0.0.1:${process.env.PORT || 7080}/health/serving`, { signal: AbortSignal.timeout(2500) }).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["/app/bin/mdx-gateway"]
# The users file belongs beside the configuration: mount it as /etc/mdx-gateway/users.htpasswd.
CMD ["serve", "--config", "/etc/mdx-gateway/config.yaml"]

# What is in it stands in /app/sbom.cdx.json (CycloneDX), and where it comes from here. No date, which would differ each time.
ARG VERSION
ARG REVISION
ARG SOURCE
LABEL org.opencontainers.image.title="mdx-gateway" \
      org.opencontainers.image.description="A caching reverse proxy for OLAP engines that speak XMLA" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}"
