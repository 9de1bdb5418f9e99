# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# guest.sh - shared by the runners of guests. A guest is a kernel on this host's files, which it sees under a layer of
# memory; it runs one command and gives back, in the directory $guest_out:
#   stdout    output of the command, errors too; the runner prints it as it comes
#   status    the command's exit status; not there when the guest ended before the command did
#   dmesg     messages of the kernel while the command ran; boot: messages before
#   console   other output of the guest
# An exit status of a runner is the command's, or one of these:
#   77    it is impossible here; a line "skipped: why" names the missing thing
#   124   it was silent for too long
#   125   the guest ended before the command did
#   126   the command succeeded, but the kernel complained (BUG, WARNING, KASAN, ...)

PATH=$PATH:/usr/sbin:/sbin
guest_tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd) || exit 1
guest_name=${0##*/}
guest_process=""
guest_watcher=""
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
		command -v "$program" >/dev/null || guest_skip "no $program here: sudo make setup-all"
	done
}

# Nothing that a guest started is left: all its processes are one group.
guest_stop() {
	local group
	for group in $guest_watcher $guest_process; do
		kill -KILL -- "-$group" 2>/dev/null
	done
	guest_process="" guest_watcher=""
}

guest_clean() {
	guest_stop
	[ -z "$guest_scratch" ] || rm -rf "$guest_scratch"
}

# On this host a guest's root may only have the rights of nobody. Where nobody may not read the tree, it is our own
# user.
guest_drop_rights() {
	[ "$(id -u)" -eq 0 ] && [ "${GUEST_USER:-nobody}" != root ] || return 0
	guest_as=(setpriv "--reuid=${GUEST_USER:-nobody}" --regid=nogroup --clear-groups --no-new-privs)
	"${guest_as[@]}" test -r "$guest_tree/tests/kernel/guest-init" && return 0
	echo "$guest_name: ${GUEST_USER:-nobody} may not read $guest_tree: the guest runs as root" >&2
	guest_as=()
}

# guest_prepare OUT COMMAND [WORD...]: OUT may be empty: then the results are thrown away.
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

# Ends the guest when it has printed nothing for $1 seconds, or after ten times as many. This also finds a hanging guest
# on a busy host: seconds are turns of this loop, which become longer with everything else, and until the first output
# of the command they are at least two minutes.
guest_watch() {
	local most=$1 silent=0 turns=0 sizes="" before allowed=$(($1 > 120 ? $1 : 120))
	while sleep 1; do
		before=$sizes
		sizes=$(stat -c %s "$guest_out/stdout" "$guest_out/console")
		silent=$((silent + 1)) turns=$((turns + 1))
		[ "$sizes" = "$before" ] || silent=0
		if [ "$allowed" -ne "$most" ] && [ -s "$guest_out/stdout" ]; then
			allowed=$most turns=0
		fi
		[ "$silent" -ge "$allowed" ] || [ "$turns" -ge $((10 * allowed)) ] || continue
		: >"$guest_scratch/overdue"
		kill -TERM -- "-$guest_process" 2>/dev/null
		sleep 5
		kill -KILL -- "-$guest_process" 2>/dev/null
		return
	done
}

# guest_run SECONDS COMMAND [WORD...]: runs the guest's process on this host, as a separate group.
guest_run() {
	local seconds=$1 status shower
	shift
	set -m
	"${guest_as[@]}" "$@" </dev/null >>"$guest_out/console" 2>&1 &
	guest_process=$!
	guest_watch "$seconds" </dev/null >/dev/null 2>&1 &
	guest_watcher=$!
	disown "$guest_watcher" # the shell need not report its end
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
		if [ -e "$guest_scratch/overdue" ]; then
			echo "$guest_name: the guest was ended: nothing came out of it for $seconds s, or no end after ten times that" >&2
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
