// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The BPF programs against the nfqueue plane's code (model.h), packet by packet.
 *
 *   fuzz_bpf [-n PACKETS | -t SECONDS] [-s SEED] [-e EPOCH]
 *
 * Packets come in epochs of one cluster each, whose tables, flows and ways are made anew, all from the seed and the
 * epoch's number. It compares verdict, mark, bytes, counters and the flow table. On a difference it prints both, and
 * the command that repeats it; exit status 1.
 */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/bpf/dprd.skel.h"
#include "dprd/core/flow/answered.h"
#include "dprd/core/flow/memory.h"
#include "tests/bpf/input.h"
#include "tests/bpf/fuzz_report.h"

enum {
	EPOCH_PACKETS = 2048,
	GENERATION_EPOCHS = 128, /* with the programs loaded once */
	COVERED_PACKETS = 500000, /* in this many packets every verdict must have come */
	CONFIG_TRIES = 100,
	CONNECT_TRIES = 100,
	CONNECT_WAIT_US = 10000,
	LATE_NS = 50000000, /* the host stood still for longer: dprd may have looked dead meanwhile */
};

struct fuzz {
	uint64_t seed, most;
	double until_s; /* 0: no end */
	long only_epoch; /* -1: all */
	struct plane plane;
	char config[INPUT_CONFIG_BYTES];
	struct input_site site;
	struct model model;
	void *model_memory, *saved_memory;
	bool stopped; /* dprd, in this epoch */
	uint32_t tick; /* of the programs, when it was last asked for */
	int processor;
	struct fastpath_counters *counters; /* of all processors */
	struct fuzz_totals totals;
};

/* One packet on both sides. */
struct trial {
	struct input input;
	struct plane_run run;
	struct frame out;
	uint64_t before_ns, after_ns;
	uint32_t before_tick, after_tick; /* the programs' clock */
	bool set_back; /* it was, by some jiffies, before after_tick was read */
	struct model_result expected;
	const char *difference;
};

static const char *verdict_name(int verdict)
{
	return verdict == PASS ? "pass" : verdict == DROP ? "drop" : verdict == REDIRECT ? "redirect" : "?";
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- sockets: this node serves one connection itself --- */

static struct flow_key socket_keys[2];
static uint64_t answered[ANSWERED_PLACES], served[ANSWERED_PLACES]; /* the model's */

static bool has_socket(const struct flow_key *key)
{
	return memcmp(key, &socket_keys[0], sizeof(*key)) == 0 || memcmp(key, &socket_keys[1], sizeof(*key)) == 0;
}

static void name_socket(const struct addr *address, unsigned port, struct sockaddr_in6 *ret)
{
	*ret = (struct sockaddr_in6) { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	memcpy(&ret->sin6_addr, address->bytes, 16);
}

/* The kernel makes the route to an IPv6 address shortly after the address. */
static bool connect_soon(int fd, const struct sockaddr_in6 *to)
{
	unsigned tries;

	for (tries = 0; tries < CONNECT_TRIES; tries++) {
		if (!connect(fd, (const struct sockaddr *)to, sizeof(*to)))
			return true;
		if (errno != ENETUNREACH)
			return false;
		usleep(CONNECT_WAIT_US);
	}
	return false;
}

/* Connects a pair of sockets, IPv4 by a v4-mapped address. They stay open for the rest of the process. */
static void connect_pair(const char *client, const char *service, struct flow_key *key)
{
	int listener = socket(AF_INET6, SOCK_STREAM, 0), fd = socket(AF_INET6, SOCK_STREAM, 0);
	struct sockaddr_in6 from, to;

	plane_command("ip addr add %s dev lo %s", service, strchr(service, ':') ? "nodad" : "");
	plane_command("ip addr add %s dev lo %s", client, strchr(client, ':') ? "nodad" : "");
	memset(key, 0, sizeof(*key));
	addr_parse(client, &key->client);
	addr_parse(service, &key->service);
	key->client_port = htons(INPUT_SOCKET_PORT);
	key->service_port = htons(80);
	name_socket(&key->client, INPUT_SOCKET_PORT, &from);
	name_socket(&key->service, 80, &to);
	if (bind(listener, (struct sockaddr *)&to, sizeof(to)) || listen(listener, 1) ||
	    bind(fd, (struct sockaddr *)&from, sizeof(from)) || !connect_soon(fd, &to) ||
	    accept(listener, NULL, NULL) < 0)
		plane_give_up("no connection: %s", strerror(errno));
}

/* --- one side and the other --- */

static void run_program(struct fuzz *f, struct trial *t)
{
	struct fastpath_control *control = f->plane.fastpath->control;
	uint64_t start_ns;
	int error;

	t->run = (struct plane_run) { .egress = t->input.egress,
				      .mark = t->input.mark,
				      .gso_bytes = t->input.gso_bytes };
	t->before_ns = clock_flow_ns();
	t->before_tick = f->tick;
	control->heartbeat_ns = f->stopped ? 0 : t->before_ns;
	control->waiting_ns = 0;
	error = plane_run(&f->plane, &t->run, &t->input.frame, &t->out);
	t->after_ns = clock_flow_ns();
	start_ns = control->jiffies_start_ns;
	t->after_tick = f->tick = plane_tick(&f->plane);
	t->set_back = control->jiffies_start_ns < start_ns;
	if (error)
		plane_give_up("the program cannot be run: %s", strerror(-error));
}

static void run_model(struct fuzz *f, struct trial *t, uint32_t tick, bool works)
{
	f->model.tick = tick;
	f->model.works = works;
	f->model.noted = NULL;
	if (t->input.egress)
		model_egress(&f->model, &t->input.frame, t->input.mark, &t->expected);
	else
		model_ingress(&f->model, &t->input.frame, t->input.mark, t->input.gso_bytes, &t->expected);
}

/* A one's complement sum has two zeros. */
static bool same_sum(const uint8_t *a, const uint8_t *b)
{
	bool zero_a = a[0] == a[1] && (a[0] == 0 || a[0] == 0xff), zero_b = b[0] == b[1] && (b[0] == 0 || b[0] == 0xff);

	return zero_a && zero_b;
}

static bool same_bytes(const struct trial *t)
{
	struct frame ours = t->out;
	const struct frame *theirs = &t->expected.out;
	unsigned i;

	if (ours.length != theirs->length)
		return false;
	for (i = 0; i < t->expected.sum_count; i++) {
		unsigned at = t->expected.sums[i];

		if (same_sum(ours.bytes + at, theirs->bytes + at))
			memcpy(ours.bytes + at, theirs->bytes + at, 2);
	}
	return memcmp(ours.bytes, theirs->bytes, ours.length) == 0;
}

static const struct fastpath_counters *read_counters(struct fuzz *f)
{
	uint32_t zero = 0;

	if (bpf_map_lookup_elem(bpf_map__fd(f->plane.fastpath->programs->maps.counters), &zero, f->counters))
		plane_give_up("the counters cannot be read");
	return &f->counters[f->processor];
}

/* The word that the model has changed is the same in the programs' table. */
static bool noted_alike(struct fuzz *f)
{
	const struct dprd_bpf *programs = f->plane.fastpath->programs;
	bool in_served = f->model.noted >= served && f->model.noted < served + ANSWERED_PLACES;
	uint32_t place = (uint32_t)(f->model.noted - (in_served ? served : answered));
	uint64_t word;

	if (bpf_map_lookup_elem(bpf_map__fd(in_served ? programs->maps.served : programs->maps.answered), &place,
				&word))
		plane_give_up("the SYNs that were answered cannot be read");
	return word == *f->model.noted;
}

static const char *compare(struct fuzz *f, struct trial *t)
{
	const struct fastpath_control *control = f->plane.fastpath->control;
	unsigned v6;

	if (t->run.verdict != t->expected.verdict)
		return "the verdict";
	if (t->run.mark != t->expected.mark)
		return "the mark";
	if (!control->waiting_ns == t->expected.waits)
		return "whether a packet waits";
	if (t->run.verdict != DROP &&
	    (t->out.length != t->expected.out.length ||
	     (memcmp(t->out.bytes, t->expected.out.bytes, t->out.length) != 0 && !same_bytes(t))))
		return "the bytes";
	if (memcmp(plane_buckets(&f->plane), flow_bucket_at(f->model.flows, 0), plane_bucket_bytes(&f->plane)) != 0)
		return "the flow table";
	if (memcmp(plane_occupied(&f->plane), flow_occupied_at(f->model.flows, 0), plane_occupied_bytes(&f->plane)) !=
	    0)
		return "which buckets are occupied";
	if (memcmp(read_counters(f), &f->model.counted, sizeof(f->model.counted)) != 0)
		return "the counters";
	if (control->made != f->model.made || control->landed != f->model.landed || control->stayed != f->model.stayed)
		return "the number of flows made, or of connections that landed";
	for (v6 = 0; v6 < 2; v6++) {
		if (*fastpath_cursor(f->plane.fastpath, v6, true) != f->model.cursors[v6])
			return "the schedule's cursor";
	}
	if (f->model.noted && !noted_alike(f))
		return "the SYN that was noted";
	return NULL;
}

/*
 * The tick that the program saw is known when the clock did not go on meanwhile. On a host that stood still it may be
 * any in between, and dprd may have looked dead: a result that fits one of them is right.
 */
static void run_trial(struct fuzz *f, struct trial *t)
{
	size_t bytes = f->plane.fastpath->flow_memory_bytes;
	struct model saved = f->model;
	uint32_t first, ticks, attempt;
	bool late;

	run_program(f, t);
	/* Setting the clock may have put it back a little, from the next tick, which the program may have seen. */
	first = t->before_tick < t->after_tick ? t->before_tick : t->after_tick;
	ticks = (t->before_tick < t->after_tick ? t->after_tick : t->before_tick) - first + 1 + t->set_back;
	late = t->after_ns - t->before_ns > LATE_NS && !f->stopped;
	if (ticks > 1 || late)
		memcpy(f->saved_memory, f->model_memory, bytes);
	for (attempt = 0; attempt < ticks * (late ? 2 : 1); attempt++) {
		if (attempt) {
			if (f->model.noted)
				*f->model.noted = f->model.noted_before;
			f->model = saved;
			memcpy(f->model_memory, f->saved_memory, bytes);
		}
		run_model(f, t, first + attempt % ticks, !f->stopped && attempt < ticks);
		t->difference = compare(f, t);
		if (!t->difference)
			return;
	}
}

/* --- what is shown of a difference --- */

static void show(struct fuzz *f, const struct trial *t, long epoch, unsigned number)
{
	const struct flow_bucket *buckets = plane_buckets(&f->plane), *model = flow_bucket_at(f->model.flows, 0);
	size_t bytes = plane_bucket_bytes(&f->plane);

	printf("%s differs: seed %llu, epoch %ld, packet %u\n", t->difference, (unsigned long long)f->seed, epoch,
	       number);
	printf("again: fuzz_bpf -s %llu -e %ld\n", (unsigned long long)f->seed, epoch);
	printf("%s, dprd %s, mark 0x%x, GSO %u\n", t->input.egress ? "egress" : "ingress",
	       f->stopped ? "stopped" : "works", t->input.mark, t->input.gso_bytes);
	frame_print("packet", &t->input.frame, NULL);
	printf("programs: %s, mark 0x%x\n", verdict_name(t->run.verdict), t->run.mark);
	if (t->run.verdict != DROP)
		frame_print("of the programs", &t->out, &t->expected.out);
	printf("model: %s, mark 0x%x\n", verdict_name(t->expected.verdict), t->expected.mark);
	if (t->expected.verdict != DROP)
		frame_print("of the model", &t->expected.out, &t->out);
	fuzz_print_flows("programs", buckets, model, bytes);
	fuzz_print_flows("model", model, buckets, bytes);
	fuzz_print_counters(read_counters(f), &f->model.counted);
	printf("%s", f->config);
}

/* --- epochs --- */

static void open_generation(struct fuzz *f, long generation)
{
	static const unsigned sizes[] = { 40, 12, 3, 25, 100 };
	char text[INPUT_CONFIG_BYTES];
	struct random r = { .state = 1 };

	if (f->plane.fastpath)
		plane_close(&f->plane);
	input_config(&r, generation % 3 == 1, text);
	plane_open(&f->plane, text, sizes[generation % 5]);
	free(f->model_memory);
	free(f->saved_memory);
	f->model_memory = aligned_alloc(sizeof(struct flow_bucket), f->plane.fastpath->flow_memory_bytes);
	f->saved_memory = malloc(f->plane.fastpath->flow_memory_bytes);
	if (!f->model_memory || !f->saved_memory)
		plane_give_up("no memory");
}

/* A sound configuration, with the Decide= of the first one. */
static void new_config(struct fuzz *f, struct random *r)
{
	static struct config_errors errors;
	bool in_kernel = f->plane.config.decide_in == DECIDE_KERNEL;
	unsigned tries;

	for (tries = 0; tries < CONFIG_TRIES; tries++) {
		input_config(r, in_kernel, f->config);
		if (!config_parse("fuzz", f->config, strlen(f->config), NULL, &f->plane.config, &errors))
			return;
	}
	plane_give_up("no sound configuration: %s", errors.text[0]);
}

static void begin_epoch(struct fuzz *f, struct random *r)
{
	struct fastpath *fastpath = f->plane.fastpath;
	bool in_kernel = f->plane.config.decide_in == DECIDE_KERNEL;
	unsigned v6;

	new_config(f, r);
	f->plane.flows = flow_table_init(fastpath->flow_memory, &f->plane.limits);
	input_site(r, &f->plane, &f->site);
	plane_fill(&f->plane);
	plane_forget_counters(&f->plane);
	fastpath->control->decisions_seen = fastpath->control->decisions;
	plane_forget_answers(&f->plane);
	memset(answered, 0, sizeof(answered));
	memset(served, 0, sizeof(served));
	f->tick = plane_tick(&f->plane);
	f->stopped = random_below(r, 3) == 0;
	memcpy(f->model_memory, fastpath->flow_memory, fastpath->flow_memory_bytes);
	f->model = (struct model) { .config = &f->plane.config,
				    .flows = f->model_memory,
				    .ways = fastpath->ways,
				    .room = fastpath->control->room,
				    .room_reason = fastpath->control->room_reason,
				    .shared = f->plane.shared,
				    .living = f->plane.living,
				    .inside = input_inside(r, &f->plane),
				    .second_look = fastpath->control->second_look,
				    .look_room = fastpath->control->look_room,
				    .mss = { f->plane.mss[0], f->plane.mss[1] },
				    .has_socket = has_socket,
				    .answered = answered,
				    .served = served };
	f->model.choices = input_choices(r, &f->plane, f->model.choice, &f->model.serves_here);
	for (v6 = 0; v6 < 2; v6++) {
		f->model.schedules[v6] = in_kernel ? fastpath_schedule(fastpath, v6, true) : NULL;
		f->model.cursors[v6] = *fastpath_cursor(fastpath, v6, true);
	}
}

static void add_counters(uint64_t *to, const uint64_t *from, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes / sizeof(uint64_t); i++)
		to[i] += from[i];
}

static void add_up(struct fuzz *f)
{
	add_counters((uint64_t *)&f->totals.counted, (const uint64_t *)&f->model.counted, sizeof(f->totals.counted));
	add_counters((uint64_t *)&f->totals.sent, (const uint64_t *)&f->model.sent, sizeof(f->totals.sent));
	f->totals.packets += EPOCH_PACKETS;
}

static bool run_epoch(struct fuzz *f, long epoch)
{
	static struct trial t;
	struct random r = { .state = f->seed ^ (uint64_t)epoch << 32 };
	unsigned number;

	begin_epoch(f, &r);
	for (number = 0; number < EPOCH_PACKETS; number++) {
		input_packet(&r, &f->site, &t.input);
		run_trial(f, &t);
		if (t.difference) {
			show(f, &t, epoch, number);
			return false;
		}
		f->totals.verdicts[t.run.verdict == PASS ? 0 : t.run.verdict == DROP ? 1 : 2]++;
		f->totals.queued[0] += (t.run.mark & MARK_DECIDE) != 0;
		f->totals.queued[1] += (t.run.mark & MARK_FORWARD) != 0;
	}
	add_up(f);
	return true;
}

static bool run_all(struct fuzz *f)
{
	long epoch = f->only_epoch < 0 ? 0 : f->only_epoch, opened = -1;

	do {
		if (epoch / GENERATION_EPOCHS != opened) {
			opened = epoch / GENERATION_EPOCHS;
			open_generation(f, opened);
		}
		if (!run_epoch(f, epoch++))
			return false;
	} while (f->only_epoch < 0 && f->totals.packets < f->most && (f->until_s <= 0 || now_s() < f->until_s));
	return true;
}

/* Stays on one processor: then only its counters move. */
static void stay_on_processor(struct fuzz *f)
{
	cpu_set_t set;

	f->processor = sched_getcpu();
	CPU_ZERO(&set);
	CPU_SET(f->processor, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		plane_give_up("no processor of its own: %s", strerror(errno));
}

static void read_options(int argc, char **argv, struct fuzz *f)
{
	double seconds = 0;
	int option;

	while ((option = getopt(argc, argv, "n:t:s:e:")) != -1) {
		switch (option) {
		case 'n':
			f->most = strtoull(optarg, NULL, 0);
			break;
		case 't':
			seconds = strtod(optarg, NULL);
			break;
		case 's':
			f->seed = strtoull(optarg, NULL, 0);
			break;
		case 'e':
			f->only_epoch = strtol(optarg, NULL, 0);
			break;
		default:
			fprintf(stderr, "usage: fuzz_bpf [-n PACKETS | -t SECONDS] [-s SEED] [-e EPOCH]\n");
			exit(2);
		}
	}
	if (seconds > 0) {
		f->most = UINT64_MAX;
		f->until_s = now_s() + seconds;
	}
}

int main(int argc, char **argv)
{
	static struct fuzz f = { .most = 1000000, .only_epoch = -1 };
	double start_s = now_s();
	bool good;

	f.seed = clock_now_us() % 1000000007;
	read_options(argc, argv, &f);
	printf("seed %llu\n", (unsigned long long)f.seed);
	fflush(stdout);
	plane_enter();
	stay_on_processor(&f);
	connect_pair("192.0.2.10", "198.51.100.1", &socket_keys[0]);
	connect_pair("2001:db8:c::10", "2001:db8:5::1", &socket_keys[1]);
	f.counters = calloc((size_t)libbpf_num_possible_cpus(), sizeof(*f.counters));
	if (!f.counters)
		plane_give_up("no memory");
	good = run_all(&f);
	if (good)
		fuzz_report(&f.totals, now_s() - start_s);
	if (good && f.totals.packets >= COVERED_PACKETS)
		good = fuzz_covered(&f.totals);
	return good ? 0 : 1;
}
