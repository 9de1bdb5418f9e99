// SPDX-License-Identifier: GPL-2.0-or-later
/* dprd: starts, runs the event loop, stops. It closes in the reverse order of opening. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/base/lock.h"
#include "dprd/base/log.h"
#include "dprd/base/version.h"
#include "dprd/check/preflight.h"
#include "dprd/cluster/asks.h"
#include "dprd/cluster/backend.h"
#include "dprd/cluster/state.h"
#include "dprd/cluster/ways.h"
#include "dprd/control/socket.h"
#include "dprd/fastpath/fastpath.h"
#include "dprd/host/flowset.h"
#include "dprd/plane/plane.h"
#include "dprd/queue/queue.h"
#include "dprd/queue/standby.h"
#include "dprd/rules/rules.h"
#include "dprd/shared/shared.h"
#include "dprd/dprd.h"
#include "dprd/upkeep/expire.h"
#include "dprd/upkeep/kept.h"
#include "dprd/upkeep/presence.h"
#include "dprd/upkeep/upkeep.h"
#include "dprd/upkeep/refill.h"
#include "dprd/upkeep/reload.h"
#include "loadcast/sample.h"

enum { EXIT_USAGE = 2, EXIT_WARNINGS = 3, RECENT_MS = 120000 };

enum mode { MODE_RUN, MODE_CHECK, MODE_CHECK_CONFIG, MODE_PURGE };

static const char usage_text[] =
	"usage: dprd [options]\n"
	"\n"
	"Decides for every new connection to this web server whether to serve it here or to\n"
	"forward it to a less loaded peer. Runs in the foreground; see dprd(8).\n"
	"\n"
	"  -c, --config=FILE   configuration (default " CONFIG_PATH_DEFAULT ")\n"
	"  -n, --node=NAME     which member this is (default: [Node] Name=, or the host name)\n"
	"      --check         check configuration and host, print how to fix each fault, exit:\n"
	"                      0 fine, 1 errors, 3 warnings only\n"
	"      --check-config  check the configuration alone, and exit\n"
	"      --purge         remove all rules, routes and flows that a dprd left, and exit\n"
	"  -v, --verbose       log more\n"
	"      --version       print the version\n"
	"  -h, --help          print this\n";

/* State that main.c alone uses. */
struct process {
	struct dprd d;
	struct upkeep upkeep;
	struct control *control;
	int lock_fd; /* one dprd per run directory */
	bool found_rules; /* a former dprd left rules, and perhaps connections that need them */
	bool started; /* all is set up */
	char **arguments; /* of main() */
};

static int read_config(const struct dprd *d, struct config *ret)
{
	struct config_errors *errors = calloc(1, sizeof(*errors));
	unsigned i;
	int error;

	if (!errors)
		return -ENOMEM;
	error = config_read(d->config_path, d->node_name, ret, errors);
	for (i = 0; error && i < errors->count && i < CONFIG_ERRORS_MAX; i++)
		log_err("%s", errors->text[i]);
	if (error && !errors->count)
		log_err("%s: %s", d->config_path, strerror(-error));
	free(errors);
	return error;
}

static unsigned workers_wanted(const struct config *config)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	if (config->workers)
		return config->workers < WORKERS_MAX ? config->workers : WORKERS_MAX;
	/* On one or two processors a second worker only takes time from the kernel and the web server. */
	return processors <= 2 ? 1 : processors < 8 ? (unsigned)processors / 2 : 4;
}

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *info, void *context)
{
	struct dprd *d = context;
	struct config_errors *errors = calloc(1, sizeof(*errors));
	char note[CONFIG_ERROR_BYTES];
	int error = -ENOMEM;
	unsigned i;

	(void)source;
	(void)info;
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)clock_now_us());
	if (errors)
		error = reload_config(d, errors, note);
	for (i = 0; errors && i < errors->count && i < CONFIG_ERRORS_MAX; i++)
		log_err("%s", errors->text[i]);
	if (error && (!errors || !errors->count))
		log_err("%s", strerror(-error));
	if (error)
		log_err("the reload failed: dprd goes on with the former configuration");
	free(errors);
	sd_notify(0, "READY=1");
	return 0;
}

static int on_stop(sd_event_source *source, const struct signalfd_siginfo *info, void *context)
{
	(void)source;
	(void)info;
	return presence_leave(context);
}

static int dprd_open_loop(struct dprd *d)
{
	int error = sd_event_default(&d->event);

	if (error >= 0)
		error = sd_event_add_signal(d->event, NULL, SIGTERM, on_stop, d);
	if (error >= 0)
		error = sd_event_add_signal(d->event, NULL, SIGINT, on_stop, d);
	if (error >= 0)
		error = sd_event_add_signal(d->event, NULL, SIGHUP, on_reload, d);
	if (error >= 0)
		error = tick_start(d);
	if (error < 0)
		log_err("event loop: %s", strerror(-error));
	return error < 0 ? error : 0;
}

static int dprd_open_state(struct process *p)
{
	struct dprd *d = &p->d;
	const struct config *config = &d->config;
	struct sampler *sampler;

	randombytes_buf(d->hash_key, sizeof(d->hash_key));
	randombytes_buf(&d->random_state, sizeof(d->random_state));
	d->flow_limits = (struct flow_limits) { .max_confirmed = config->max_flows,
						.max_half_open = config->max_half_open,
						.hash_key = { d->hash_key[0], d->hash_key[1] } };
	d->why = calloc(1, sizeof(*d->why));
	sampler = sampler_new(config);
	d->set = flowset_new();
	mutex_lock(&d->lock);
	expire_reconfigure(d, NULL);
	asks_reconfigure(d, sampler);
	mutex_unlock(&d->lock);
	if (!d->why || !d->sampler || !d->set) {
		log_err("start: %s", strerror(errno));
		return -ENOMEM;
	}
	d->rules_watch = rules_watch_new();
	if (!d->rules_watch)
		log_warning("cannot watch nftables for changes (%s); checking the rules every 2 s instead",
			    strerror(errno));
	p->found_rules = flowset_present(d->set);
	ways_open(&d->ways, config);
	probes_open(d);
	translated_open(d);
	return plane_open(d);
}

static int dprd_open(struct process *p)
{
	struct dprd *d = &p->d;
	sigset_t handled;
	int error;

	/* Before any thread starts: all threads inherit the mask, so that only the event loop takes the signals. */
	sigemptyset(&handled);
	sigaddset(&handled, SIGTERM);
	sigaddset(&handled, SIGINT);
	sigaddset(&handled, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &handled, NULL);

	d->started_ms = clock_now_ms();
	d->worker_count = workers_wanted(&d->config);
	p->lock_fd = lock_take(d->config.run_dir);
	error = p->lock_fd < 0 ? p->lock_fd : 0;
	/* Before anything is changed: a dprd of another run directory may hold the queues. */
	if (!error)
		error = queue_check(d);
	if (!error) {
		kept_open(d);
		error = dprd_open_state(p);
	}
	if (error)
		return error;
	mutex_lock(&d->lock);
	backend_reconfigure(d, NULL);
	mutex_unlock(&d->lock);
	error = shared_open(d);
	if (error)
		return error;
	ways_refresh(&d->ways, &d->config, &d->lock, &d->rules_changed);
	asks_refresh(d, clock_now_ms());
	asks_inside(d);
	mutex_lock(&d->lock);
	backend_refresh(d);
	mutex_unlock(&d->lock);
	/* Flows that were taken over go on at once; new connections are served here until all is ready. */
	error = plane_attach(d);
	/*
	 * The set outlives dprd, and must have all flows before a copy of a SYN is decided. A new set gets them below.
	 */
	if (!error)
		refill_set(d);
	/* Queues come before the rules, so that no rule sends a packet to a queue without a reader. */
	if (!error)
		error = queue_start(d);
	presence_alive();
	if (!error)
		error = rules_install(d);
	if (!error)
		error = refill_set(d);
	if (!error)
		plane_started(d);
	if (!error)
		error = dprd_open_loop(d);
	if (!error)
		error = control_open(d, &p->control);
	p->started = !error;
	return error;
}

struct flow_count {
	const struct flow_limits *limits;
	unsigned flows;
};

static bool count_flow(void *context, const struct flow *flow)
{
	struct flow_count *count = context;

	count->flows += !flow_is_over(flow, count->limits, clock_flow_ms());
	return true;
}

/*
 * Forwarded flows need the rules and the flow table for as long as they live. So both stay for the next dprd (an
 * upgrade, a restart) while there are flows, and are removed otherwise.
 */
static void dprd_close(struct process *p)
{
	struct dprd *d = &p->d;
	bool serving = d->last_decapsulated_ms && clock_now_ms() - d->last_decapsulated_ms < RECENT_MS, keep;
	/* A start that failed: a former dprd may have left connections of peers, which this process has not seen. */
	bool as_found = !p->started && p->found_rules;
	struct flow_count count = { .limits = &d->flow_limits };
	unsigned flows;

	presence_alive();
	control_close(p->control);
	plane_tick(d, false);
	/* Count the flows in the table itself: its counts miss the newest flows of the programs (Decide=kernel). */
	if (d->flows)
		flow_each(d->flows, count_flow, &count);
	flows = count.flows;
	/*
	 * Shared addresses go on by their lease, and NAT to real servers goes on because only the kernel knows its
	 * connections.
	 */
	keep = as_found || flows || serving || shared_works(d) || config_has_nat(&d->config) || plane_serves_unseen(d);
	if (d->flows) {
		presence_withdraw(d);
		if (!as_found)
			rules_remove(&d->config, d->worker_count, keep);
		if (flows || serving)
			log_info("%u forwarded flows%s wait for the next dprd; dprd --purge ends them", flows,
				 serving ? " and tunnelled ones of peers" : "");
		else if (plane_serves_unseen(d))
			log_info("connections that peers forward are still served (Form=direct); dprd --purge ends "
				 "that");
		if (shared_works(d))
			log_info("shared addresses are still served by loadcast's lease; dprd --purge ends that");
	}
	queue_stop(d);
	shared_close(d, keep);
	plane_close(d, keep);
	translated_close(d);
	probes_close(d);
	ways_close(&d->ways);
	flowset_free(d->set);
	rules_watch_free(d->rules_watch);
	sampler_free(d->sampler);
	free(d->why);
	d->event = sd_event_unref(d->event);
	if (p->lock_fd >= 0)
		close(p->lock_fd);
}

static int run(struct process *p)
{
	struct dprd *d = &p->d;
	int error = dprd_open(p);

	if (!error) {
		unsigned warnings;

		/* No problem found here keeps dprd from starting: this node serves what it cannot forward. */
		preflight(&d->config, true, &warnings);
		sd_notify(0, "READY=1\nWATCHDOG=1");
		log_info("dprd %s on %s: policy %s, %u members, %u worker%s", dprd_version, d->config.node_name,
			 d->config.policy, d->config.member_count, d->worker_count, d->worker_count == 1 ? "" : "s");
		error = sd_event_loop(d->event);
	}
	dprd_close(p);
	if (!error && p->upkeep.presence.renews) {
		/* The same process as before for the service manager. */
		renew_execute(p->arguments);
		return EXIT_FAILURE;
	}
	return error ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int purge(struct process *p)
{
	struct dprd *d = &p->d;
	static const char *const names[] = { "flows", "status", "control" };
	char path[PATH_BYTES + 16];
	unsigned i;

	p->lock_fd = lock_take(d->config.run_dir);
	if (p->lock_fd < 0) {
		log_err("stop dprd before --purge");
		return EXIT_FAILURE;
	}
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", d->config.run_dir, names[i]);
		unlink(path);
	}
	kept_purge(&d->config);
	shared_purge(&d->config);
	if (fastpath_purge(&d->config)) {
		log_err("%s: cannot remove everything that is pinned there", d->config.pin_dir);
		rules_remove(&d->config, 0, false);
		return EXIT_FAILURE;
	}
	return rules_remove(&d->config, 0, false) ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int check(const struct dprd *d)
{
	unsigned warnings = 0, errors = preflight(&d->config, false, &warnings);

	if (errors)
		printf("%u errors, %u warnings\n", errors, warnings);
	else
		printf("%s is ready%s\n", d->config.node_name, warnings ? ", with warnings" : "");
	return errors ? EXIT_FAILURE : warnings ? EXIT_WARNINGS : EXIT_SUCCESS;
}

/* dprd itself needs no key, so the configuration is fine without one; but the operator must know. */
static int check_config(const struct dprd *d)
{
	char message[CONFIG_ERROR_BYTES];
	uint8_t key[32];
	int error = config_read_key(d->config.key_file, key, message);

	explicit_bzero(key, sizeof(key));
	printf("%s: fine, this is %s\n", d->config_path, d->config.node_name);
	if (error)
		fprintf(stderr, "but loadcast does not start on this host: %s\n", message);
	return EXIT_SUCCESS;
}

static enum mode parse_options(struct dprd *d, int argc, char **argv)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "node", required_argument, NULL, 'n' },
		{ "check", no_argument, NULL, 'C' },
		{ "check-config", no_argument, NULL, 'k' },
		{ "purge", no_argument, NULL, 'P' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	enum mode mode = MODE_RUN;
	int option;

	while ((option = getopt_long(argc, argv, "c:n:vh", options, NULL)) != -1) {
		switch (option) {
		case 'c':
			d->config_path = optarg;
			break;
		case 'n':
			d->node_name = optarg;
			break;
		case 'C':
			mode = MODE_CHECK;
			break;
		case 'k':
			mode = MODE_CHECK_CONFIG;
			break;
		case 'P':
			mode = MODE_PURGE;
			break;
		case 'v':
			log_set_level(LOG_LEVEL_DEBUG);
			break;
		case 'V':
			printf("dprd %s\n", dprd_version);
			exit(EXIT_SUCCESS);
		case 'h':
			fputs(usage_text, stdout);
			exit(EXIT_SUCCESS);
		default:
			fputs("try: dprd --help\n", stderr);
			exit(EXIT_USAGE);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "dprd: unexpected argument: %s\ntry: dprd --help\n", argv[optind]);
		exit(EXIT_USAGE);
	}
	return mode;
}

int main(int argc, char **argv)
{
	/* A start may fail before they are opened. */
	static struct process p = {
		.d = { .config_path = CONFIG_PATH_DEFAULT, .lock = MUTEX_INITIALIZER, .ways = { .mtu_learner = -1 } },
		.lock_fd = -1
	};
	struct dprd *d = &p.d;
	enum mode mode;

	if (argc == 2 && strcmp(argv[1], STANDBY_OPTION) == 0)
		return standby_run();
	d->upkeep = &p.upkeep;
	p.arguments = argv;
	mode = parse_options(d, argc, argv);

	/* One arena: each further one would reserve 64 MiB of address space per thread. */
	mallopt(M_ARENA_MAX, 1);
	if (sodium_init() < 0) {
		log_err("cannot initialise libsodium: the system has no source of random numbers");
		return EXIT_FAILURE;
	}
	if (read_config(d, &d->config))
		return EXIT_FAILURE;
	switch (mode) {
	case MODE_CHECK:
		return check(d);
	case MODE_CHECK_CONFIG:
		return check_config(d);
	case MODE_PURGE:
		return purge(&p);
	case MODE_RUN:
		break;
	}
	return run(&p);
}
