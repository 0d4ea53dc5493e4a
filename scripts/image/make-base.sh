#!/usr/bin/env bash
# Makes the base image that stands in for BASE_IMAGE where no image registry is reached: Debian from the
# package mirror of this machine, Node from the npm package `node`, npm from this machine.
# Prints the name of the image. An image made from the same parts is used again; the Debian tree is kept
# in .cache/image.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
cache=$root/.cache/image
suite=bookworm
packages=ca-certificates,libatomic1,libstdc++6
node=$root/node_modules/node/bin/node
npm=$(dirname "$(dirname "$(readlink -f "$(command -v npm)")")")

[ -x "$node" ] || { echo "There is no $node: run npm ci first." >&2; exit 1; }
mkdir -p "$cache"
# Two runs at once must not build the same tree.
exec 9>"$cache/lock"
flock 9

tree=$cache/debian-$(printf '%s' "$suite $packages" | sha256sum | cut -c1-12).tar
key=$(
  {
    cat "$0"
    "$node" --version
    grep '"version"' "$npm/package.json"
  } | sha256sum | cut -c1-12
)
name=localhost/mdx-gateway-base:$key
if buildah inspect --type image "$name" >/dev/null 2>&1; then
  echo "$name"
  exit 0
fi

work=$(mktemp -d "$cache/base.XXXXXX")
container=
clean() {
  if [ -n "$container" ]; then buildah rm "$container" >/dev/null; fi
  # debootstrap may have been interrupted with /proc and /sys of the tree mounted.
  umount -q "$work/tree/proc" "$work/tree/sys" || true
  rm -rf --one-file-system "$work"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ ! -f "$tree" ]; then
  echo "debootstrap: $suite with $packages" >&2
  # The mirror and the proxy that apt uses here; without an answer debootstrap has a mirror of its own.
  mirror=$(
    apt-get indextargets --format '$(REPO_URI)' \
      'Identifier: Packages' "Codename: $suite" 'Component: main' 2>/dev/null |
      grep -E '^https?://' | head -n 1 || true
  )
  proxy=
  eval "$(apt-config shell proxy Acquire::http::Proxy 2>/dev/null || true)"
  if [ -n "$proxy" ]; then export http_proxy=$proxy; fi
  log=$work/debootstrap.log
  if ! debootstrap --variant=minbase --include="$packages" "$suite" "$work/tree" ${mirror:+"$mirror"} >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    exit 1
  fi
  rm -rf "$work"/tree/{var/cache/apt,var/lib/apt/lists}/* "$work"/tree/usr/share/{doc,man,locale}/*
  # These two are copies of this machine's.
  rm -f "$work/tree/etc/resolv.conf" "$work/tree/etc/hostname"
  tar --one-file-system -C "$work/tree" -cf "$work/tree.tar" .
  mv "$work/tree.tar" "$tree"
fi

container=$(buildah from scratch)
buildah add -q "$container" "$tree" / >/dev/null
buildah copy -q "$container" "$node" /usr/local/bin/node >/dev/null
buildah copy -q "$container" "$npm" /usr/local/lib/node_modules/npm >/dev/null
buildah config \
  --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  --cmd node "$container"
buildah run --isolation chroot "$container" -- sh -ec '
  ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
  ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
  echo "base image: Debian $(cat /etc/debian_version), Node $(node --version), npm $(npm --version)"
' >&2
buildah commit -q --format docker "$container" "$name" >/dev/null
echo "$name"
