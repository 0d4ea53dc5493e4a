#!/usr/bin/env bash
# npm run image: builds the image and tries it: see try-image.ts for what is tried.
# Needs root and Debian; installs buildah and debootstrap when they are missing.
#   BASE_IMAGE=docker.io/library/node:24-bookworm-slim npm run image    builds on another base
#   IMAGE=registry.example/mdx-gateway:1.2 npm run image                names the result
#   SOURCE=https://git.example/mdx-gateway npm run image                labels it with where the sources are
#   SOURCE_DATE_EPOCH=1790000000 npm run image                          the time of all its files, in place of the commit's
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
export PATH="$root/node_modules/.bin:$PATH"
image=${IMAGE:-localhost/mdx-gateway:latest}

if [ "$(id -u)" != 0 ]; then
  echo "This script mounts images and makes namespaces: run it as root." >&2
  exit 1
fi
node scripts/image/ensure-packages.ts

secrets=$(mktemp -d)
container=
clean() {
  if [ -n "$container" ]; then buildah rm "$container" >/dev/null; fi
  rm -rf "$secrets"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

base=${BASE_IMAGE:-$(scripts/image/make-base.sh)}

# How npm reaches its registry from here, for the build alone: the user's own settings, then what has been
# decided from all sources (environment, global file), which wins because it comes later.
(
  umask 077
  user=$(npm config get userconfig)
  if [ -f "$user" ]; then cat "$user"; fi
  for setting in registry proxy https-proxy noproxy strict-ssl; do
    value=$(npm config get "$setting")
    case $value in '' | null | undefined) ;; *) echo "$setting=$value" ;; esac
  done
) 2>/dev/null >"$secrets/npmrc"
ca=${NODE_EXTRA_CA_CERTS:-$(npm config get cafile 2>/dev/null)}
if [ -f "$ca" ]; then cp "$ca" "$secrets/ca.pem"; else : >"$secrets/ca.pem"; fi

before=$(buildah images -q --no-trunc "$image" 2>/dev/null || true)
# Two builds of the same commit on the same base differ in nothing but the code that Node.js keeps compiled.
time=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
version=$(node -p "require('./package.json').version")
# Without --format docker the health check would be dropped. Proxy variables are handed on by buildah itself.
buildah bud --format docker --isolation chroot --network host \
  --timestamp "$time" \
  --build-arg BASE_IMAGE="$base" \
  --build-arg VERSION="$version" --build-arg SOURCE="${SOURCE:-}" \
  --build-arg REVISION="$(git rev-parse HEAD 2>/dev/null || true)" \
  --secret id=npmrc,src="$secrets/npmrc" --secret id=ca,src="$secrets/ca.pem" \
  --tag "$image" .
after=$(buildah images -q --no-trunc "$image")
if [ -n "$before" ] && [ "$before" != "$after" ]; then buildah rmi "$before" >/dev/null 2>&1 || true; fi
# Bases made by an earlier version of make-base.sh, of Node or of npm are of no more use.
buildah images --format '{{.Name}}:{{.Tag}}' | grep '^localhost/mdx-gateway-base:' |
  grep -Fxv "$base" | xargs -r -n 1 buildah rmi >/dev/null 2>&1 || true

container=$(buildah from --pull-never "$image")
folder=$(buildah mount "$container")
buildah inspect --type image "$image" >"$secrets/inspect.json"
node scripts/image/try-image.ts "$secrets/inspect.json" "$folder"

size=$(buildah images --format '{{.Size}}' "$image")
base_size=$(buildah images --format '{{.Size}}' "$base")
echo "image: $image, $size (of which the base is $base_size)"
