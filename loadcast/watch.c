// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * loadcast --watch: shows the present load of the cluster from the announcements themselves. Beside a daemon of this
 * host only multicast is heard; the loads that come by unicast are then read from the daemon's load table.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/base/log.h"
#include "loadcast/loadcast.h"
#include "loadcast/mcast.h"
#include "loadcast/core/table.h"

enum {
	REFRESH_MS = 1000,
	ONCE_PERIODS = 3,
	TABLE_FRESH_MS = 2000, /* an older file comes from a daemon that is gone */
};

struct watch {
	const struct options *options;
	struct setup *setup;
	struct mcast *mcast;
	struct table table;
	int signals;
	bool tty;
};

static const char *state_text(const struct node_load *node)
{
	static const char *const names[NODE_STATES] = { "active", "draining", "unhealthy" };

	if (node->age_ms == LOAD_AGE_NEVER_MS)
		return "?";
	if (!(node->flags & NODE_HEARD))
		return "gone";
	if (node->flags & NODE_CONFLICT)
		return "conflict";
	if (node->state == NODE_ACTIVE && !(node->flags & NODE_DPRD_UP))
		return "no-dprd";
	return names[node->state];
}

/* Adds what the daemon of this host heard later than we did. Its file is checked as dprd checks it. */
static void add_table_file(const struct watch *w, uint64_t now_ms, struct load_table *view)
{
	static struct load_table file;
	uint32_t i, j;

	if (load_table_snapshot(w->setup->config.table_file, &file) < 0 ||
	    !clock_is_recent(file.published_ms, now_ms, TABLE_FRESH_MS))
		return;
	for (i = 0; i < view->count; i++) {
		for (j = 0; j < file.count; j++) {
			uint32_t age_ms = load_age_ms(&file, &file.nodes[j], now_ms);

			if (file.nodes[j].id != view->nodes[i].id || age_ms >= view->nodes[i].age_ms)
				continue;
			view->nodes[i] = file.nodes[j];
			view->nodes[i].age_ms = age_ms;
		}
	}
}

static const struct member *member_of(const struct watch *w, const struct node_load *node)
{
	return &w->setup->config.member[config_member_by_id(&w->setup->config, node->id)];
}

static const char *address_text(const struct member *member, char text[ADDR_TEXT_BYTES])
{
	return addr_format(addr_is_zero(&member->cluster_v4) ? &member->cluster_v6 : &member->cluster_v4, text);
}

static void print_node(const struct watch *w, const struct node_load *node, int name_width, int address_width)
{
	const struct member *member = member_of(w, node);
	const struct load_sample *s = &node->sample;
	char text[ADDR_TEXT_BYTES];

	printf("%-*s  %-*s  %-9s", name_width, member->name, address_width, address_text(member, text),
	       state_text(node));
	if (node->age_ms == LOAD_AGE_NEVER_MS) {
		printf("  %6s  %6s  %5s  %6s  %7s  %7s  %8s\n", "?", "?", "?", "?", "?", "?", "?");
		return;
	}
	if (node->age_ms < 10000)
		printf("  %4ums", node->age_ms);
	else
		printf("  %5us", node->age_ms / 1000);
	printf("  %6u  %4u%%  %6u  %7u  %7u  %8.1f\n", s->open_connections, (s->cpu_permille + 5) / 10, s->redirected,
	       s->active_sockets, s->accept_queue, s->arrivals_per_1000_s / 1000.0);
}

static void print_rejected(const struct watch *w)
{
	unsigned i;

	for (i = 1; i < REJECT_REASONS; i++) {
		if (reject_counts((enum reject)i) && w->table.rejected[i])
			printf("%llu announcements not taken: %s\n", (unsigned long long)w->table.rejected[i],
			       reject_text((enum reject)i));
	}
}

static void print_text(const struct watch *w, const struct load_table *view)
{
	int name_width = 4, address_width = 7;
	char text[ADDR_TEXT_BYTES];
	uint32_t i;

	for (i = 0; i < view->count; i++) {
		const struct member *member = member_of(w, &view->nodes[i]);
		int name = (int)strlen(member->name), address = (int)strlen(address_text(member, text));

		name_width = name > name_width ? name : name_width;
		address_width = address > address_width ? address : address_width;
	}
	if (w->tty)
		printf("\033[H\033[J"); /* go to the top and clear the screen */
	printf("%-*s  %-*s  %-9s  %6s  %6s  %5s  %6s  %7s  %7s  %8s\n", name_width, "NODE", address_width, "ADDRESS",
	       "STATE", "AGE", "OPEN", "CPU", "FWD", "SOCKETS", "ACCEPTQ", "ARRIVE/s");
	for (i = 0; i < view->count; i++)
		print_node(w, &view->nodes[i], name_width, address_width);
	print_rejected(w);
	fflush(stdout);
}

static void print_json_node(const struct watch *w, const struct node_load *node)
{
	const struct member *member = member_of(w, node);
	const struct load_sample *s = &node->sample;
	char text[ADDR_TEXT_BYTES];

	/* Names are plain letters, digits, "_", "." and "-": no escapes are needed. */
	printf("{\"node\":\"%s\",\"address\":\"%s\",\"state\":\"%s\"", member->name, address_text(member, text),
	       state_text(node));
	if (node->age_ms == LOAD_AGE_NEVER_MS) {
		printf(",\"age_ms\":null}");
		return;
	}
	printf(",\"age_ms\":%u,\"weight\":%u,\"rewriter\":%s,\"config_differs\":%s,\"open_connections\":%u,"
	       "\"cpu_percent\":%.1f,\"redirected\":%u,\"active_sockets\":%u,\"accept_queue\":%u,"
	       "\"arrivals_per_s\":%.3f,\"version\":\"%s\"}",
	       node->age_ms, node->weight, node->flags & NODE_DPRD_UP ? "true" : "false",
	       node->flags & NODE_CONFIG_DIFFERS ? "true" : "false", s->open_connections, s->cpu_permille / 10.0,
	       s->redirected, s->active_sockets, s->accept_queue, s->arrivals_per_1000_s / 1000.0, node->version);
}

static void print_json(const struct watch *w, const struct load_table *view)
{
	const char *separator = "";
	uint32_t i;

	printf("{\"schema\":\"loadcast-watch/1\",\"cluster\":\"%s\",\"nodes\":[", w->setup->config.cluster_name);
	for (i = 0; i < view->count; i++) {
		printf("%s", i ? "," : "");
		print_json_node(w, &view->nodes[i]);
	}
	printf("],\"not_taken\":{");
	for (i = 1; i < REJECT_REASONS; i++) {
		if (!reject_counts((enum reject)i) || !w->table.rejected[i])
			continue;
		printf("%s\"%s\":%llu", separator, reject_text((enum reject)i),
		       (unsigned long long)w->table.rejected[i]);
		separator = ",";
	}
	printf("}}\n");
	fflush(stdout);
}

/* Prints the load table; returns the number of nodes heard. */
static unsigned refresh(const struct watch *w)
{
	static struct load_table view;
	uint64_t now_ms = clock_now_ms();
	unsigned i, heard = 0;

	table_fill(&w->table, now_ms, &view);
	if (mcast_is_partial(w->mcast))
		add_table_file(w, now_ms, &view);
	if (w->options->json)
		print_json(w, &view);
	else
		print_text(w, &view);
	for (i = 0; i < view.count; i++)
		heard += (view.nodes[i].flags & NODE_HEARD) != 0;
	return heard;
}

static void receive(struct watch *w, int socket)
{
	const struct datagram *batch;
	unsigned i, count = mcast_receive(w->mcast, socket, &batch);

	for (i = 0; i < count; i++)
		table_receive(&w->table, &w->setup->keys, &batch[i].source, batch[i].bytes, batch[i].size,
			      clock_now_ms());
}

/* Listens until until_ms; false when interrupted. */
static bool listen_until(struct watch *w, uint64_t until_ms)
{
	struct pollfd fds[1 + MCAST_FAMILIES] = { { .fd = w->signals, .events = POLLIN } };
	int sockets[MCAST_FAMILIES];
	uint64_t now_ms;
	unsigned i;

	mcast_sockets(w->mcast, sockets);
	for (i = 0; i < MCAST_FAMILIES; i++)
		fds[1 + i] = (struct pollfd) { .fd = sockets[i], .events = POLLIN };
	while ((now_ms = clock_now_ms()) < until_ms) {
		if (poll(fds, 1 + MCAST_FAMILIES, (int)(until_ms - now_ms)) < 0)
			continue;
		if (fds[0].revents)
			return false;
		for (i = 0; i < MCAST_FAMILIES; i++) {
			if (fds[1 + i].revents)
				receive(w, sockets[i]);
		}
	}
	return true;
}

static int catch_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -1;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Prints once; the exit status tells whether any node was heard. */
static int look_once(struct watch *w)
{
	uint64_t until_ms = clock_now_ms() + (uint64_t)ONCE_PERIODS * w->setup->config.period_ms;

	if (!listen_until(w, until_ms))
		return EXIT_FAILURE;
	if (refresh(w))
		return EXIT_SUCCESS;
	log_err("no node was heard: is this host reached by the announcements (multicast, or a [Network] line "
		"with its address on the nodes), and does it have the key of the nodes?");
	return EXIT_FAILURE;
}

static int look_always(struct watch *w)
{
	uint64_t next_ms = clock_now_ms(), rejoin_ms = next_ms + MCAST_REJOIN_MS;

	do {
		next_ms += REFRESH_MS;
		if (clock_now_ms() >= rejoin_ms) {
			mcast_rejoin(w->mcast);
			rejoin_ms += MCAST_REJOIN_MS;
		}
		if (!listen_until(w, next_ms))
			return EXIT_SUCCESS;
		refresh(w);
	} while (!ferror(stdout));
	return EXIT_FAILURE;
}

int watch_run(const struct options *options)
{
	static struct watch w; /* once; too large for a stack */
	char message[CONFIG_ERROR_BYTES];
	int status;

	w.options = options;
	w.tty = isatty(STDOUT_FILENO) && !options->once;
	w.setup = setup_read(options, true);
	if (!w.setup)
		return EXIT_FAILURE;
	w.signals = catch_signals();
	w.mcast = mcast_open(&w.setup->config, MCAST_OBSERVER, message);
	if (w.signals < 0 || !w.mcast) {
		log_err("%s", w.mcast ? strerror(errno) : message);
		mcast_close(w.mcast);
		free(w.setup);
		return EXIT_FAILURE;
	}
	table_init(&w.table, &w.setup->config, true, 0);
	status = options->once ? look_once(&w) : look_always(&w);
	mcast_close(w.mcast);
	close(w.signals);
	sodium_memzero(&w.setup->keys, sizeof(w.setup->keys));
	free(w.setup);
	return status;
}
