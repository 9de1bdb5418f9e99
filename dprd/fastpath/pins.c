// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fastpath/pins.c - handles the parts that outlive dprd: pinned maps and links, and classifiers, which stay by
 * themselves.
 */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "dprd/base/log.h"
#include "dprd/bpf/dprd.skel.h"
#include "dprd/fastpath/private.h"

bool fastpath_is_bpf_fs(const char *directory, char why[FASTPATH_WHY_BYTES])
{
	struct statfs fs;

	if (statfs(directory, &fs)) {
		snprintf(why, FASTPATH_WHY_BYTES, "%s: %s", directory, strerror(errno));
		return false;
	}
	if ((unsigned long)fs.f_type != BPF_FS_MAGIC)
		snprintf(why, FASTPATH_WHY_BYTES, "%s is not on a bpf file system (mount -t bpf bpf /sys/fs/bpf)",
			 directory);
	return (unsigned long)fs.f_type == BPF_FS_MAGIC;
}

void fastpath_pins_of(const struct config *config, char pins[FASTPATH_PINS_BYTES])
{
	snprintf(pins, FASTPATH_PINS_BYTES, "%s/v%d", config->pin_dir, FASTPATH_VERSION);
}

bool fastpath_pins_ready(const char *pin_dir, const char *pins, char why[FASTPATH_WHY_BYTES])
{
	if ((mkdir(pin_dir, 0700) && errno != EEXIST)) {
		snprintf(why, FASTPATH_WHY_BYTES, "%s: %s", pin_dir, strerror(errno));
		return false;
	}
	if (!fastpath_is_bpf_fs(pin_dir, why))
		return false;
	if (!mkdir(pins, 0700) || errno == EEXIST)
		return true;
	snprintf(why, FASTPATH_WHY_BYTES, "%s: %s", pins, strerror(errno));
	return false;
}

void *fastpath_map_flows(const char *pins, int *ret_fd, size_t *ret_bytes)
{
	char path[FASTPATH_PINS_BYTES + 32];
	struct bpf_map_info info = { 0 };
	uint32_t size = sizeof(info);
	void *memory;
	int fd;

	snprintf(path, sizeof(path), "%s/flows", pins);
	fd = bpf_obj_get(path);
	if (fd < 0)
		return NULL;
	if (bpf_obj_get_info_by_fd(fd, &info, &size) || info.type != BPF_MAP_TYPE_ARRAY ||
	    info.value_size != sizeof(struct flow_bucket) || !(info.map_flags & BPF_F_MMAPABLE)) {
		close(fd);
		return NULL;
	}
	*ret_bytes = (size_t)info.max_entries * sizeof(struct flow_bucket);
	memory = mmap(NULL, *ret_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) {
		close(fd);
		return NULL;
	}
	*ret_fd = fd;
	return memory;
}

int fastpath_pin_flows(struct fastpath *f)
{
	char path[FASTPATH_PINS_BYTES + 32], fresh[FASTPATH_PINS_BYTES + 32];

	if (!f->resized)
		return 0;
	if (f->former_memory) {
		flow_table_adopt(f->flow_memory, f->former_memory, f->former_bytes);
		munmap(f->former_memory, f->former_bytes);
		f->former_memory = NULL;
	}
	snprintf(path, sizeof(path), "%s/flows", f->pins);
	snprintf(fresh, sizeof(fresh), "%s/flows-new", f->pins);
	unlink(fresh);
	if (bpf_obj_pin(f->flows_fd, fresh) || rename(fresh, path))
		return -errno;
	f->resized = false;
	return 0;
}

int fastpath_pin_lease(const struct fastpath *f)
{
	char path[FASTPATH_PINS_BYTES + 32];
	int error;

	snprintf(path, sizeof(path), "%s/lease", f->pins);
	error = bpf_map__set_pin_path(f->programs->maps.lease, path);
	snprintf(path, sizeof(path), "%s/refused-2", f->pins);
	return error ? error : bpf_map__set_pin_path(f->programs->maps.refused, path);
}

/* All words of one map into another one. 0 or -errno. */
static int copy_former_words(int from, int to)
{
	uint32_t *keys = calloc(SHARED_REFUSED_WORDS, sizeof(*keys)), count = SHARED_REFUSED_WORDS, next, i;
	uint64_t *words = calloc(SHARED_REFUSED_WORDS, sizeof(*words));
	int error = keys && words ? bpf_map_lookup_batch(from, NULL, &next, keys, words, &count, NULL) : -ENOMEM;

	/* The end of the map. */
	if (error == -ENOENT)
		error = 0;
	for (i = 0; !error && i < count; i++)
		words[i] = bucket_copy_former_word(words[i]);
	if (!error)
		error = bpf_map_update_batch(to, keys, words, &count, NULL);
	free(keys);
	free(words);
	return error;
}

void fastpath_take_refused(const struct fastpath *f)
{
	char path[FASTPATH_PINS_BYTES + 32];
	int error, from;

	snprintf(path, sizeof(path), "%s/refused", f->pins);
	from = bpf_obj_get(path);
	if (from < 0)
		return;
	error = copy_former_words(from, bpf_map__fd(f->programs->maps.refused));
	if (error)
		log_warning("cannot take over the refused SYNs of the former version: %s", strerror(-error));
	close(from);
	unlink(path);
}

void fastpath_classifier_detach(uint32_t interface, int out)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)interface, .attach_point = out ? BPF_TC_EGRESS : BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, options, .handle = CLASSIFIER_HANDLE, .priority = CLASSIFIER_PRIORITY);

	bpf_tc_detach(&hook, &options);
}

/* Classifiers are not pinned: dprd looks for its own on every interface. */
static void classifiers_remove(void)
{
	struct if_nameindex *all = if_nameindex(), *i;

	for (i = all; i && i->if_index; i++) {
		fastpath_classifier_detach(i->if_index, 0);
		fastpath_classifier_detach(i->if_index, 1);
	}
	if_freenameindex(all);
}

int fastpath_unpin(const char *pins)
{
	char path[FASTPATH_PINS_BYTES + 300];
	struct dirent *entry;
	DIR *directory = opendir(pins);
	int error = 0;

	if (!directory)
		return errno == ENOENT ? 0 : -errno;
	while ((entry = readdir(directory))) {
		snprintf(path, sizeof(path), "%s/%s", pins, entry->d_name);
		if (entry->d_name[0] != '.' && unlink(path))
			error = -errno;
	}
	closedir(directory);
	classifiers_remove();
	return rmdir(pins) ? -errno : error;
}
