#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Installs the Debian packages that building, testing and demonstrating need. "demo": all but those
# of the tests; "kernel": those of guests, too.
# Does nothing when all are there. Needs root only when something is missing.
set -eu

# To build, to raise a laboratory, to demonstrate and to measure.
packages="gcc make pkg-config libc6-dev linux-libc-dev git ca-certificates
libnetfilter-queue-dev libmnl-dev libprotobuf-c-dev protobuf-c-compiler libsystemd-dev
libinih-dev libsodium-dev libjansson-dev
libbpf-dev libelf-dev zlib1g-dev bpftool clang llvm
iptables nftables iproute2 ethtool procps python3
nginx-light libnginx-mod-stream haproxy dnsmasq-base httperf wrk curl gnuplot-nox"
# To test, too.
[ "${1:-all}" = demo ] || packages="$packages libcmocka-dev
bind9-dnsutils tcpdump python3-pytest python3-scapy systemd
clang-format clang-tidy libclang-rt-14-dev cppcheck shellcheck spin valgrind strace mandoc"
# A kernel to build and to test; Debian's own, and what boots it.
[ "${1:-all}" != kernel ] || packages="$packages linux-source-6.1 flex bison bc patch xz-utils ccache busybox-static
linux-headers-amd64 qemu-system-x86 cpio kmod ipvsadm"

missing=""
for package in $packages; do
	status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
	echo "these packages are missing:$missing" >&2
	echo "install them with: sudo make setup" >&2
	exit 1
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
# A package may start a service of its own at installation; the tests run theirs in namespaces.
policy=/usr/sbin/policy-rc.d
made_policy=
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
	made_policy=yes
fi
trap '[ -z "$made_policy" ] || rm -f "$policy"' EXIT
log=$(mktemp)
# shellcheck disable=SC2086  # a list of words
if ! { apt-get update && apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	echo "the packages could not be installed; the whole output is in $log" >&2
	exit 1
fi
rm -f "$log"
