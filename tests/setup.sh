#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Installs the Debian packages that this tree needs, or lists the missing ones.
#
#   setup.sh [SET]       installs a set: build, deb (what "make deb" needs), demo, check (what "make check" needs; the
#                        default), all (what "make check-all" needs). Does nothing when all are there. Needs root only
#                        when something is missing.
#   setup.sh can GOAL... exits with 0 if "make GOAL" finds what it needs, on any system;
#                        else prints what is missing
#
# An installation leaves no service enabled or running that was not before.
set -eu

# SETS PACKAGE EVIDENCE. A set is that of "setup.sh SET", or a goal of make. The evidence that a package is there
# is a command, a <header> of C or a Python (module); "-" for what no goal asks for by itself.
packages="
build                 gcc                     cc
build                 make                    make
build                 pkg-config              pkg-config
build                 libc6-dev               <stdio.h>
build                 linux-libc-dev          <linux/bpf.h>
build                 libnetfilter-queue-dev  <libnetfilter_queue/libnetfilter_queue.h>
build                 libmnl-dev              <libmnl/libmnl.h>
build                 libprotobuf-c-dev       <protobuf-c/protobuf-c.h>
build                 protobuf-c-compiler     protoc-c
build                 libsystemd-dev          <systemd/sd-daemon.h>
build                 libsodium-dev           <sodium.h>
build                 libjansson-dev          <jansson.h>
build                 libcurl4-openssl-dev    <curl/curl.h>
build                 libbpf-dev              <bpf/libbpf.h>
build                 libelf-dev              <libelf.h>
build                 libncurses-dev          <ncurses.h>
build                 zlib1g-dev              <zlib.h>
build                 clang                   clang
build                 bpftool                 bpftool
web,lint,systemd      libmicrohttpd-dev       <microhttpd.h>
deb,check             dpkg-dev                dpkg-buildpackage
deb,check             debhelper               dh
deb,check             dh-dkms                 dh_dkms
deb,check             lintian                 lintian
demo                  git                     git
demo                  ca-certificates         -
demo,cluster          iptables                iptables
demo,cluster,systemd  nftables                nft
demo,cluster,systemd  iproute2                ip
demo,cluster          ethtool                 ethtool
demo,cluster          procps                  ps
demo,cluster,systemd,lint,surge  python3      python3
demo,cluster,surge    nginx-light             nginx
demo,cluster          libnginx-mod-stream     -
demo                  haproxy                 haproxy
demo,cluster          dnsmasq-base            dnsmasq
demo                  httperf                 httperf
demo                  wrk                     wrk
demo,cluster          curl                    curl
demo                  gnuplot-nox             gnuplot
check,unit,cmocka     libcmocka-dev           <cmocka.h>
check,cluster         bind9-dnsutils          dig
check,cluster         openssh-client          ssh
check,cluster         openssh-server          /usr/sbin/sshd
check,cluster         tcpdump                 tcpdump
check,cluster,pytest  python3-pytest          (pytest)
check,cluster         python3-scapy           (scapy)
check,systemd         systemd                 /lib/systemd/systemd
check,lint            clang-format            clang-format
check,lint            clang-tidy              clang-tidy
check,fuzz            libclang-rt-14-dev      -
check                 llvm                    -
check,lint            cppcheck                cppcheck
check,lint            shellcheck              shellcheck
check,lint            mandoc                  mandoc
check,model           spin                    spin
browser               chromium                chromium
browser               python3-websocket       (websocket)
check                 valgrind                valgrind
check                 strace                  strace
uml,kernel            linux-source-6.1        -
uml,kernel            flex                    -
uml,kernel            bison                   -
uml,kernel            bc                      -
uml,kernel            patch                   -
uml,kernel            xz-utils                -
uml,kernel            ccache                  -
uml,kernel            busybox-static          -
kernel                linux-headers-amd64     -
kernel                qemu-system-x86         -
kernel                cpio                    -
kernel                kmod                    -
uml,kernel            ipvsadm                 -
"

# Prints "PACKAGE EVIDENCE" of the packages in one of the sets SET,SET...
packages_of() {
	echo "$packages" | awk -v wanted="$1" '
		BEGIN { split(wanted, words, ","); for (i in words) is_wanted[words[i]] = 1 }
		{
			split($1, sets, ",")
			for (i in sets)
				if (sets[i] in is_wanted) {
					print $2, $3
					next
				}
		}'
}

# The sets that "make GOAL" needs beside the packages of the build.
sets_of_goal() {
	case $1 in
	unit | unit-san | bpf-test | bpf-fuzz) echo build,cmocka ;;
	web) echo build,web ;;
	lint) echo build,cmocka,lint ;;
	fuzz) echo build,fuzz ;;
	model) echo model ;;
	cluster | storm) echo build,cluster ;;
	systemd) echo build,systemd ;;
	deb | deb-test) echo build,deb ;;
	surge-test) echo build,cmocka,surge ;;
	experiments-test) echo build,pytest ;;
	*) echo build ;;
	esac
}

# Prints the packages of these sets without evidence, and the evidence that was searched.
lacking() {
	wanted=$(packages_of "$1")
	# The compiler itself knows where headers are.
	headers=$(echo "$wanted" | awk '$2 ~ /^</ {
		print "#if !__has_include(" $2 ")"
		print "lacking " $1 " " $2
		print "#endif"
	}' | ${CC:-cc} -E -P - 2>/dev/null | sed -n 's/^lacking //p')
	echo "$wanted" | while read -r package evidence; do
		case $evidence in
		- | '<'*) ;;
		cc) command -v "${CC:-cc}" >/dev/null || echo "$package ${CC:-cc}" ;;
		'('*)
			module=${evidence#(}
			/usr/bin/python3 -c "import importlib.util, sys; sys.exit(not importlib.util.find_spec('${module%)}'))" \
				2>/dev/null || echo "$package Python's ${module%)}"
			;;
		*) command -v "$evidence" >/dev/null || echo "$package $evidence" ;;
		esac
	done
	if command -v "${CC:-cc}" >/dev/null; then
		[ -z "$headers" ] || echo "$headers"
	else
		echo "$wanted" | sed -n '/ </p'
	fi
}

# can GOAL...: prints on standard error what is missing.
can() {
	sets=
	for goal in "$@"; do
		sets=$sets,$(sets_of_goal "$goal")
	done
	lacks=$(lacking "$sets")
	[ -n "$lacks" ] || return 0
	how=setup-check
	case $(lacking build),$(lacking build,deb) in
	"$lacks",*) how=setup-build ;;
	*,"$lacks") how=setup-deb ;;
	esac
	{
		echo "make $*: these Debian packages are missing:"
		echo "$lacks" | while read -r package evidence; do
			printf '  %-24s (%s)\n' "$package" "$evidence"
		done
		echo "Install them with: sudo make $how"
	} >&2
	return 1
}

# The links by which services begin at the next boot: those of systemd, and of System V.
boot_links() {
	find /etc/systemd/system /etc/rc[2-5S].d -type l \
		\( -path '*.wants/*' -o -path '*.requires/*' -o -path '/etc/rc*/S*' \) 2>/dev/null | sort
}

# Takes back what the installation enabled. A systemd that came with it keeps its own units.
disable_new() {
	boot_links | comm -13 "$work/links" - | while read -r link; do
		unit=${link##*/}
		case $link in
		/etc/rc*)
			unit=${unit#S[0-9][0-9]}
			update-rc.d "$unit" disable >/dev/null 2>&1 || rm -f "$link"
			;;
		*)
			case $(dpkg-query -S "$(readlink "$link")" "/usr$(readlink "$link")" 2>/dev/null) in
			systemd:* | systemd-*) continue ;;
			esac
			if [ -d /run/systemd/system ]; then
				systemctl disable --now "$unit" >/dev/null 2>&1 || true
			fi
			rm -f "$link"
			;;
		esac
		echo "${unit%.service} stays disabled"
	done | sort -u
	[ ! -d /run/systemd/system ] || systemctl daemon-reload || true
}

finish() {
	status=$?
	trap '' INT TERM HUP
	disable_new
	[ -z "$made_policy" ] || rm -f "$policy"
	if [ "$status" -eq 0 ]; then
		rm -rf "$work"
	fi
	exit "$status"
}

# run_apt WORD...: apt-get with its output in the log; waits for another apt-get that runs.
run_apt() {
	if ! apt-get -o DPkg::Lock::Timeout=300 "$@" >>"$work/log" 2>&1; then
		tail -n 20 "$work/log" >&2
		echo "apt-get $1 failed; all of its output: $work/log" >&2
		exit 1
	fi
}

install_packages() {
	work=$(mktemp -d)
	boot_links >"$work/links"
	# A package may start a service of its own at installation; the tests run theirs in namespaces.
	policy=/usr/sbin/policy-rc.d
	made_policy=
	trap finish EXIT
	trap 'exit 1' INT TERM HUP
	if [ ! -e "$policy" ]; then
		made_policy=yes
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod 755 "$policy"
	fi
	export DEBIAN_FRONTEND=noninteractive
	echo "reading the package lists (apt-get update)"
	run_apt update
	echo "installing, which takes minutes: $*"
	run_apt install -y --no-install-recommends "$@"
	echo "installed"
}

case ${1:-check} in
can)
	shift
	can "$@"
	exit
	;;
build) sets=build,web ;;
deb) sets=build,web,deb ;;
demo) sets=build,web,demo ;;
check) sets=build,web,demo,check,uml ;;
all) sets=build,web,demo,check,browser,kernel ;;
*)
	sed -n 's/^#   //p' "$0" >&2
	exit 2
	;;
esac

if ! command -v dpkg-query >/dev/null; then
	echo "this is not a Debian system; install what these Debian packages have:" >&2
	packages_of "$sets" | sed 's/^/  /; s/ -$//' >&2
	exit 1
fi
missing=
for package in $(packages_of "$sets" | cut -d ' ' -f 1); do
	status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
	echo "these packages are missing:$missing" >&2
	echo "install them with: sudo make setup-${1:-check}" >&2
	exit 1
fi
# shellcheck disable=SC2086  # a list of words
install_packages $missing
