#!/usr/bin/env bash
# Installs the Debian packages that building and running needs and this machine lacks. Silent when nothing is missing.
set -euo pipefail

packages=(
  build-essential pkg-config ca-certificates
  libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev
  gstreamer1.0-plugins-base gstreamer1.0-plugins-good gstreamer1.0-plugins-bad gstreamer1.0-libav
  libvulkan1 mesa-vulkan-drivers
)

if ! command -v dpkg-query >/dev/null; then
  echo "not a Debian system: install GStreamer >= 1.22 (base, good, bad, libav; development files) and a C compiler" >&2
  exit 0
fi
missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "missing packages: ${missing[*]}: install them as root" >&2; exit 1; }
  as_root=(sudo)
fi
echo "installing ${missing[*]}" >&2
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
