#!/bin/sh
# enter.sh ROOT [FILE PLACE]... -- COMMAND...
# Runs in new mount and PID namespaces, as process 1. Makes the folder ROOT a read-only root with /proc, a few
# devices and the given files and folders (read-only), and becomes COMMAND. A FILE of `volume` makes PLACE an empty
# folder that everybody may write to.
set -eu
root=$1
shift
mount --bind "$root" "$root"
mkdir -p "$root/proc" "$root/dev"
mount -t tmpfs -o mode=755,nosuid tmpfs "$root/dev"
for device in null zero full random urandom; do
  : >"$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
while [ "$1" != -- ]; do
  if [ "$1" = volume ]; then
    mkdir -p "$root$2"
    mount -t tmpfs -o mode=1777,nosuid,nodev,noexec tmpfs "$root$2"
  else
    mkdir -p "$(dirname "$root$2")"
    if [ -d "$1" ]; then mkdir -p "$root$2"; else : >>"$root$2"; fi
    mount --bind "$1" "$root$2"
    mount -o remount,bind,ro "$root$2"
  fi
  shift 2
done
shift
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount -o remount,bind,ro "$root"
exec "$@"
