/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * control/commands.h - every command of dprctl, one row each.
 *
 * From these rows come dprd's dispatcher (control/request.c), and dprctl's dispatcher, help and shell
 * completions (dprctl/table.c); tests/docs compares them with the manual. A new command is a row, a function
 * control_NAME() where dprd answers, a function command_NAME() in dprctl/command.c, and a paragraph in dprctl(8).
 */
#ifndef DPRD_CONTROL_COMMANDS_H
#define DPRD_CONTROL_COMMANDS_H

/* The users of a command. */
enum command_rights {
	RIGHTS_ANYBODY, /* dprctl answers by itself, without dprd; it reads the configuration only if it needs it */
	RIGHTS_SOCKET, /* every user that may open the control socket: root, dprd's user and its group */
	RIGHTS_CHANGE, /* root and dprd's user: it changes something */
};

/* The options that go with a command; dprctl/table.c has the options themselves. */
enum command_options {
	WITH_JSON = 1 << 0,
	WITH_HEADING = 1 << 1,
	WITH_WATCH = 1 << 2,
	WITH_DUMP = 1 << 3,
	WITH_FILTER = 1 << 4, /* --to, --client, --state, --limit */
	WITH_ALL = 1 << 5,
	WITH_WAIT = 1 << 6, /* --wait, --timeout */
	WITH_FORMAT = 1 << 7,
	WITH_MEMBER = 1 << 8, /* --weight, --dry-run */
	WITH_ADDRESSES = 1 << 9, /* --service, --cluster */
	WITH_INIT = 1 << 10, /* --member, --key, --force */
	WITH_TOP = 1 << 11, /* --once, --interval */
	WITH_ANYTHING = -1, /* ignores options and arguments */
};

/* X(name, argument, rights, options, help). The argument: "" none; "A" one; "[A]" one or none; "A..." one or more. */

/* dprd answers these. */
#define COMMANDS_OF_DPRD(X)                                                                                        \
	X(status, "", RIGHTS_SOCKET, WITH_JSON | WITH_HEADING | WITH_WATCH,                                        \
	  "this node, its cluster, and what to do (the default)")                                                  \
	X(peers, "", RIGHTS_SOCKET, WITH_JSON | WITH_HEADING | WITH_WATCH | WITH_DUMP,                             \
	  "all that is known about each member")                                                                   \
	X(backends, "", RIGHTS_SOCKET, WITH_JSON | WITH_HEADING | WITH_WATCH, "the real servers behind this node") \
	X(flows, "", RIGHTS_SOCKET, WITH_JSON | WITH_HEADING | WITH_WATCH | WITH_FILTER,                           \
	  "connections that this node forwards")                                                                   \
	X(why, "CLIENT[:PORT]", RIGHTS_SOCKET, WITH_JSON | WITH_ALL, "why a connection went where it went")        \
	X(drain, "", RIGHTS_CHANGE, WITH_JSON | WITH_WAIT, "send new connections to the peers")                    \
	X(undrain, "", RIGHTS_CHANGE, WITH_JSON, "take new connections again")                                     \
	X(reload, "", RIGHTS_CHANGE, WITH_JSON, "read the configuration again")                                    \
	X(config, "", RIGHTS_SOCKET, WITH_JSON, "print the configuration in effect, defaults included")

/* dprctl makes these by itself, "metrics" and "zone" from the answer to "status". */
#define COMMANDS_OF_DPRCTL(X)                                                                       \
	X(cluster, "", RIGHTS_ANYBODY, WITH_JSON | WITH_HEADING,                                    \
	  "the views of all nodes, by ssh, and how they differ")                                    \
	X(top, "", RIGHTS_SOCKET, WITH_TOP, "all nodes, live; keys sort, freeze and drain")         \
	X(member, "ACTION...", RIGHTS_SOCKET, WITH_MEMBER | WITH_ADDRESSES | WITH_ALL,              \
	  "add, remove or weight a member in dprd.conf; undo")                                      \
	X(metrics, "", RIGHTS_SOCKET, 0, "print the status for Prometheus")                         \
	X(zone, "[NAME]", RIGHTS_SOCKET, WITH_FORMAT, "print DNS records of the members that work") \
	X(init, "", RIGHTS_ANYBODY, WITH_INIT | WITH_ADDRESSES,                                     \
	  "write a first dprd.conf and a key; asks, or takes options")                              \
	X(genkey, "", RIGHTS_ANYBODY, 0, "print a fresh cluster key")                               \
	X(version, "", RIGHTS_ANYBODY, 0, "print the version")                                      \
	X(help, "", RIGHTS_ANYBODY, WITH_ANYTHING, "print this")

#endif
