# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# guest.sh - what the runners of guests share. A guest is a kernel on this host's files, which it sees under a layer of
# memory; it runs one command and gives back, in the directory $guest_out:
#   stdout    what the command printed, errors too; the runner prints it as it comes
#   status    the command's exit status; not there when the guest ended before the command did
#   dmesg     what the kernel said while the command ran; boot: what it said before
#   console   what else came out of the guest
# An exit status of a runner is the command's, or one of these:
#   77    it cannot be done here; a line "skipped: why" says what is missing
#   124   the time was over
#   125   the guest ended before the command did
#   126   the command succeeded, but the kernel complained (BUG, WARNING, KASAN, ...)

PATH=$PATH:/usr/sbin:/sbin
guest_tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd) || exit 1
guest_name=${0##*/}
guest_process=""
guest_scratch=""
guest_out=""
guest_variables=()
guest_as=()

guest_die() {
	echo "$guest_name: $*" >&2
	exit 1
}

guest_skip() {
	echo "skipped: $guest_name: $*"
	exit 77
}

# Every program that is named must be there.
guest_need() {
	local program
	for program; do
		command -v "$program" >/dev/null || guest_skip "no $program here: sudo make setup-kernel"
	done
}

# Nothing that a guest started stays behind: all its processes are one group.
guest_stop() {
	[ -z "$guest_process" ] || kill -KILL -- "-$guest_process" 2>/dev/null
	guest_process=""
}

guest_clean() {
	guest_stop
	[ -z "$guest_scratch" ] || rm -rf "$guest_scratch"
}

# A guest's root may be no more than nobody is on this host. Where nobody may not read the tree it has to be us.
guest_drop_rights() {
	[ "$(id -u)" -eq 0 ] && [ "${GUEST_USER:-nobody}" != root ] || return 0
	guest_as=(setpriv "--reuid=${GUEST_USER:-nobody}" --regid=nogroup --clear-groups --no-new-privs)
	"${guest_as[@]}" test -r "$guest_tree/tests/kernel/guest-init" && return 0
	echo "$guest_name: ${GUEST_USER:-nobody} may not read $guest_tree: the guest runs as root" >&2
	guest_as=()
}

# guest_prepare OUT COMMAND [WORD...]: OUT may be empty: then what comes back is thrown away.
guest_prepare() {
	local owner
	case $guest_tree in
	*[[:space:]]*) guest_die "a path with a blank in it cannot be given to a kernel: $guest_tree" ;;
	esac
	guest_scratch=$(mktemp -d) || exit 1
	trap guest_clean EXIT
	trap 'exit 1' INT TERM HUP
	chmod 755 "$guest_scratch"
	guest_out=$(realpath -m "${1:-$guest_scratch/out}")
	shift
	mkdir -p "$guest_out" || exit 1
	guest_drop_rights
	(cd "$guest_out" && rm -f stdout status dmesg boot console && : >stdout && : >console) || exit 1
	{
		printf 'cd %q || exit 1\n' "$PWD"
		[ "${#guest_variables[@]}" -eq 0 ] || printf 'export %q\n' "${guest_variables[@]}"
		printf '%q ' "$@"
		echo
	} >"$guest_out/command"
	if [ "${#guest_as[@]}" -gt 0 ]; then
		owner=${GUEST_USER:-nobody}
		chown "$owner" "$guest_out" "$guest_out"/{stdout,console} || exit 1
	fi
}

# guest_run SECONDS COMMAND [WORD...]: the guest's own process on this host, as a group of its own.
guest_run() {
	local seconds=$1 status shower
	shift
	set -m
	timeout -k 5 "$seconds" "${guest_as[@]}" "$@" </dev/null >>"$guest_out/console" 2>&1 &
	guest_process=$!
	set +m
	tail -n +1 -s 0.2 -F --pid="$guest_process" "$guest_out/stdout" 2>/dev/null &
	shower=$!
	wait "$guest_process"
	status=$?
	guest_stop
	wait "$shower"
	guest_judge "$status" "$seconds"
}

guest_complaints='BUG:|WARNING:|KASAN|Oops|refcount|general protection|Kernel panic'

guest_judge() {
	local ended=$1 seconds=$2 status=""
	{ read -r status <"$guest_out/status"; } 2>/dev/null
	if [[ ! "$status" =~ ^[0-9]+$ ]]; then
		tr -d '\r' <"$guest_out/console" | tail -n 40 | sed 's/^/   | /'
		if [ "$ended" -eq 124 ] || [ "$ended" -eq 137 ]; then
			echo "$guest_name: the guest was ended after $seconds s" >&2
			return 124
		fi
		echo "$guest_name: the guest ended before its command did ($ended)" >&2
		return 125
	fi
	if grep -haE "$guest_complaints" "$guest_out/dmesg" | sed 's/^/FAILED kernel: /' | grep .; then
		[ "$status" -ne 0 ] || status=126
	fi
	return "$status"
}
