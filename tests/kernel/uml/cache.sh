# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# cache.sh - built kernels, kept outside of the tree, so that a new clone finds them. An entry is named by a hash of all
# inputs of the kernel, and never changes. It has the kernel (linux), its checksum (sum) and the list of hashed inputs
# (made-of). An entry is made beside its place and moved there by one rename; a reader compares the checksum of its
# copy. So an incomplete entry and a damaged one are noticed. A builder holds the lock; readers need none.
#   KERNEL_CACHE   the directory (default: dprd/kernel in the user's cache directory)

CACHE_ENTRIES_MAX=4
CACHE_WAIT_S=7200 # for another build
cache=${KERNEL_CACHE:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/dprd/kernel}

# Without a place of its own that can be written, $1 is used.
cache_open() {
	cache=$(realpath -m "$cache")
	if ! { mkdir -p "$cache/kernels" && [ -w "$cache" ] && : >>"$cache/lock"; } 2>/dev/null; then
		echo "cannot write $cache: keeping kernels in $1"
		cache=$1
		mkdir -p "$cache/kernels" && : >>"$cache/lock"
	fi
}

cache_lock() {
	exec 8>>"$cache/lock" || return 1
	flock -n 8 && return 0
	echo "waiting: another process builds a kernel ($cache/lock)"
	flock -w "$CACHE_WAIT_S" 8
}

# cache_take KEY FILE: the kernel is copied to FILE. The status is 1 when there is none, or only a damaged one.
cache_take() {
	local entry=$cache/kernels/$1 file=$2 new
	[ -d "$entry" ] || return 1
	new=$(mktemp "$file.XXXXXX") || return 1
	touch "$entry" 2>/dev/null # cache_bound keeps the entries used last
	if cp "$entry/linux" "$new" 2>/dev/null && [ "$(sha256sum <"$new")" = "$(cat "$entry/sum" 2>/dev/null)" ]; then
		chmod 755 "$new" && mv "$new" "$file" && return 0
	else
		echo "damaged, not used: $entry"
	fi
	rm -f "$new"
	return 1
}

# cache_keep KEY FILE MADE-OF: needs the lock. An entry in the key's place is damaged, or it would have been taken.
cache_keep() {
	local entry=$cache/kernels/$1 new
	new=$(mktemp -d "$cache/kernels/.new.XXXXXX") || return 1
	cp "$2" "$new/linux" && sha256sum <"$new/linux" >"$new/sum" && cp "$3" "$new/made-of" && chmod 755 "$new" &&
		rm -rf "$entry" && mv -T "$new" "$entry" && return 0
	rm -rf "$new"
	return 1
}

# Needs the lock: so another process's incomplete entry can go, too.
cache_bound() {
	local entry
	rm -rf "$cache"/kernels/.new.*
	# Names are hashes.
	# shellcheck disable=SC2012
	ls -t "$cache/kernels" | tail -n +$((CACHE_ENTRIES_MAX + 1)) | while IFS= read -r entry; do
		rm -rf "${cache:?}/kernels/$entry"
	done
}

# cache_get KEY FILE MADE-OF BUILT COMMAND...: FILE is the kernel of this key. If there is none, COMMAND makes BUILT, in
# a separate shell; only one of several processes does so. MADE-OF is a file with the hashed inputs. The status is that
# of COMMAND, or 1.
cache_get() {
	local key=$1 file=$2 made_of=$3 built=$4 status=0
	shift 4
	cache_take "$key" "$file" && return 0
	cache_lock || {
		echo "another process holds $cache/lock, and does not end" >&2
		return 1
	}
	if ! cache_take "$key" "$file"; then
		("$@")
		status=$?
		if [ "$status" -eq 0 ] && { ! cache_keep "$key" "$built" "$made_of" || ! cache_take "$key" "$file"; }; then
			echo "cannot keep the kernel in $cache/kernels" >&2
			status=1
		fi
		cache_bound
	fi
	exec 8>&-
	return "$status"
}

# One line for each entry, the newest first.
cache_list() {
	local entry
	echo "$cache"
	# shellcheck disable=SC2012
	ls -t "$cache/kernels" 2>/dev/null | while IFS= read -r entry; do
		printf '  %s  %s  %s\n' "$(date -r "$cache/kernels/$entry" '+%F %R')" "${entry:0:12}" \
			"$(head -n 3 "$cache/kernels/$entry/made-of" 2>/dev/null | paste -sd' ')"
	done
}
