// SPDX-License-Identifier: GPL-2.0-or-later
/* fastpath.c - opens, loads and closes the BPF programs and their maps, and takes over those of a former process. */
#define _GNU_SOURCE
#include "dprd/fastpath/fastpath.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/base/log.h"
#include "dprd/bpf/dprd.skel.h"
#include "dprd/fastpath/private.h"

__attribute__((format(printf, 2, 0))) static int libbpf_log(enum libbpf_print_level level, const char *format,
							    va_list arguments)
{
	char text[512];

	if (level == LIBBPF_DEBUG)
		return 0;
	vsnprintf(text, sizeof(text), format, arguments);
	text[strcspn(text, "\n")] = '\0';
	log_debug("%s", text);
	return 0;
}

/* Makes a flow table for this process, and adopts the flows of the former one. */
static struct flow_table *table_new(struct fastpath *f, const struct flow_limits *limits)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	size_t bytes = flow_table_bytes(limits);
	struct flow_table *flows;
	int adopted;

	f->flows_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "dprd_flows", sizeof(uint32_t), sizeof(struct flow_bucket),
				     (uint32_t)(bytes / sizeof(struct flow_bucket)), &options);
	if (f->flows_fd < 0)
		return NULL;
	f->flow_memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->flows_fd, 0);
	if (f->flow_memory == MAP_FAILED) {
		f->flow_memory = NULL;
		return NULL;
	}
	f->flow_memory_bytes = bytes;
	f->resized = true;
	flows = flow_table_init(f->flow_memory, limits);
	adopted = f->former_memory ? flow_table_adopt(flows, f->former_memory, f->former_bytes) : 0;
	if (adopted < 0)
		log_warning("%s/flows is of another version or damaged: starting without its flows", f->pins);
	else if (f->former_memory)
		log_info("%d forwarded flows taken over into a table of another size or layout", adopted);
	return flows;
}

/* Opens the pinned table when its size is right; otherwise makes a new one. */
static struct flow_table *table_open(struct fastpath *f, struct flow_limits *limits)
{
	struct flow_table *flows;
	struct flow_counts counts;

	f->flow_memory = fastpath_map_flows(f->pins, &f->flows_fd, &f->flow_memory_bytes);
	if (!f->flow_memory)
		return table_new(f, limits);
	flows = flow_table_open(f->flow_memory, f->flow_memory_bytes, limits);
	if (flows) {
		counts = flow_counts(flows);
		log_info("%u forwarded flows taken over from the former process", counts.half_open + counts.confirmed);
		return flows;
	}
	f->former_memory = f->flow_memory;
	f->former_bytes = f->flow_memory_bytes;
	f->flow_memory = NULL;
	close(f->flows_fd);
	f->flows_fd = -1;
	return table_new(f, limits);
}

static void *map_memory(const struct bpf_map *map)
{
	size_t bytes = (size_t)bpf_map__max_entries(map) * bpf_map__value_size(map);
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static int programs_load(struct fastpath *f, const struct flow_table *flows, const struct config *config)
{
	int error;

	f->programs = dprd_bpf__open();
	if (!f->programs)
		return -errno;
	f->programs->rodata->flow_secret[0] = flow_table_hash_key(flows)[0];
	f->programs->rodata->flow_secret[1] = flow_table_hash_key(flows)[1];
	f->programs->rodata->flow_buckets = flow_table_buckets(flows);
	f->programs->rodata->jiffy_ns = clock_jiffy_ns();
	f->programs->rodata->decide_in_kernel = config->decide_in != DECIDE_QUEUE;
	error = bpf_map__reuse_fd(f->programs->maps.flows, f->flows_fd);
	if (!error && config->shared_count && *f->pins)
		error = fastpath_pin_lease(f);
	if (!error)
		error = dprd_bpf__load(f->programs);
	if (error)
		return error;
	if (config->shared_count && *f->pins)
		fastpath_take_refused(f);
	f->control = &f->programs->bss->control;
	f->tables = f->programs->bss->tables;
	f->ways = f->programs->bss->ways;
	f->confirmed = f->programs->bss->confirmed;
	f->schedules = map_memory(f->programs->maps.schedules);
	f->recent = map_memory(f->programs->maps.recent);
	f->lease = map_memory(f->programs->maps.lease);
	f->processors = (unsigned)libbpf_num_possible_cpus();
	f->per_processor = calloc(f->processors, sizeof(struct fastpath_counters));
	if (!f->schedules || !f->recent || !f->lease || !f->per_processor)
		return -ENOMEM;
	return fastpath_clock_set(f, NULL);
}

static void say_why_not(int error, char why[FASTPATH_WHY_BYTES])
{
	snprintf(why, FASTPATH_WHY_BYTES, "the kernel does not take the BPF programs: %s%s", strerror(-error),
		 error == -EPERM || error == -EACCES ? " (they need CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN)" : "");
}

bool fastpath_possible(const struct config *config, char why[FASTPATH_WHY_BYTES])
{
	struct config in_kernel = { .decide_in = DECIDE_KERNEL };
	struct flow_limits limits = { .max_confirmed = 1024, .max_half_open = 64 };
	struct fastpath *f = calloc(1, sizeof(*f));
	char directory[PATH_BYTES], *slash;
	struct flow_table *flows;
	int error = -ENOMEM;

	if (!f)
		return false;
	/* dprd makes the last part of the path when it starts. */
	snprintf(directory, sizeof(directory), "%s", config->pin_dir);
	slash = strrchr(directory, '/');
	if (access(directory, F_OK) && slash > directory)
		*slash = '\0';
	libbpf_set_print(libbpf_log);
	if (!fastpath_is_bpf_fs(directory, why)) {
		free(f);
		return false;
	}
	flows = table_new(f, &limits);
	error = flows ? programs_load(f, flows, &in_kernel) : -errno;
	if (error)
		say_why_not(error, why);
	fastpath_close(f, true);
	return !error;
}

int fastpath_open(const struct config *config, struct flow_limits *limits, struct fastpath **ret,
		  struct flow_table **ret_flows, char why[FASTPATH_WHY_BYTES])
{
	struct fastpath *f = calloc(1, sizeof(*f));
	int error;

	if (!f)
		return -ENOMEM;
	libbpf_set_print(libbpf_log);
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	f->flows_fd = -1;
	fastpath_pins_of(config, f->pins);
	if (!fastpath_pins_ready(config->pin_dir, f->pins, why)) {
		fastpath_close(f, true);
		return -ENOENT;
	}
	*ret_flows = table_open(f, limits);
	error = *ret_flows ? programs_load(f, *ret_flows, config) : -errno;
	if (error) {
		say_why_not(error, why);
		fastpath_close(f, true);
		*ret_flows = NULL;
		return error;
	}
	*ret = f;
	return 0;
}

static void unmap(void *memory, const struct bpf_map *map)
{
	if (memory)
		munmap(memory, (size_t)bpf_map__max_entries(map) * bpf_map__value_size(map));
}

void fastpath_close(struct fastpath *f, bool keep)
{
	if (!f)
		return;
	if (f->control)
		fastpath_heartbeat(f, false);
	fastpath_detach(f, keep);
	if (f->programs) {
		unmap(f->schedules, f->programs->maps.schedules);
		unmap((void *)(uintptr_t)f->recent, f->programs->maps.recent);
		unmap((void *)(uintptr_t)f->lease, f->programs->maps.lease);
		dprd_bpf__destroy(f->programs);
	}
	if (f->former_memory)
		munmap(f->former_memory, f->former_bytes);
	if (f->flow_memory)
		munmap(f->flow_memory, f->flow_memory_bytes);
	if (f->flows_fd >= 0)
		close(f->flows_fd);
	free(f->per_processor);
	free(f);
}

int fastpath_adopt(const struct config *config, struct flow_table *table)
{
	char pins[FASTPATH_PINS_BYTES];
	size_t bytes;
	void *memory;
	int fd, adopted;

	fastpath_pins_of(config, pins);
	memory = fastpath_map_flows(pins, &fd, &bytes);
	if (!memory)
		return -ENOENT;
	adopted = flow_table_adopt(table, memory, bytes);
	munmap(memory, bytes);
	close(fd);
	return adopted;
}

int fastpath_purge(const struct config *config)
{
	char pins[FASTPATH_PINS_BYTES];

	/* Another program may have made the directory above (tmpfiles.d): it stays. */
	fastpath_pins_of(config, pins);
	return fastpath_unpin(pins);
}
