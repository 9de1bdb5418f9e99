// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fastpath/attach.c - attaches the programs to interfaces: by pinned tcx links (Linux 6.6), or as classifiers of the
 * qdisc clsact, which stay by themselves. Both replace the program of a former process in one step.
 */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <unistd.h>

#include "dprd/base/log.h"
#include "dprd/base/owner.h"
#include "dprd/bpf/dprd.skel.h"
#include "dprd/fastpath/fastpath.h"
#include "dprd/fastpath/private.h"

enum {
	TCX_INGRESS = 46, /* enum bpf_attach_type; missing in the headers of some systems on which dprd is built */
	TCX_EGRESS = 47,
	TCX_BEFORE = 8, /* BPF_F_BEFORE; without a program that it names: before all others */
	PROGRAMS_MAX = 16, /* asked for at one interface */
};

static const char *const directions[2] = { "in", "out" };

static void link_path(const struct fastpath *f, uint32_t interface, int out, char path[FASTPATH_PINS_BYTES + 32])
{
	snprintf(path, FASTPATH_PINS_BYTES + 32, "%s/%s-%u", f->pins, directions[out], interface);
}

static int program_fd(const struct fastpath *f, int out)
{
	return bpf_program__fd(out ? f->programs->progs.dprd_egress : f->programs->progs.dprd_ingress);
}

/*
 * Puts the program into the link of a former process. Returns the link's descriptor; -errno when there is no such link.
 */
static int link_take_over(const struct fastpath *f, uint32_t interface, int out, const char *path)
{
	struct bpf_link_info info = { 0 };
	uint32_t size = sizeof(info);
	int fd = bpf_obj_get(path);

	if (fd < 0)
		return -errno;
	/*
	 * struct xdp has the number of the interface at the same place as the struct of tcx. The link of an interface
	 * that is gone has 0 there.
	 */
	if (!bpf_obj_get_info_by_fd(fd, &info, &size) && info.xdp.ifindex == interface &&
	    !bpf_link_update(fd, program_fd(f, out), NULL))
		return fd;
	close(fd);
	unlink(path);
	return -ENOENT;
}

/*
 * The link comes before those of other programs: a program that accepts all packets would keep them from dprd. Then
 * nothing would be forwarded, and connections that peers forward here would be lost.
 */
static int link_new(const struct fastpath *f, uint32_t interface, int out, const char *path)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = TCX_BEFORE);
	int fd = bpf_link_create(program_fd(f, out), (int)interface,
				 (enum bpf_attach_type)(out ? TCX_EGRESS : TCX_INGRESS), &options);

	if (fd < 0)
		return -errno;
	if (bpf_obj_pin(fd, path)) {
		int error = -errno;

		close(fd);
		return error;
	}
	return fd;
}

static int classifier_attach(const struct fastpath *f, uint32_t interface, int out)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)interface, .attach_point = out ? BPF_TC_EGRESS : BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, options, .handle = CLASSIFIER_HANDLE, .priority = CLASSIFIER_PRIORITY,
		    .prog_fd = program_fd(f, out), .flags = BPF_TC_F_REPLACE);
	int error = bpf_tc_hook_create(&hook);

	return error && error != -EEXIST ? error : bpf_tc_attach(&hook, &options);
}

static int attach_one(const struct fastpath *f, uint32_t interface, int out, int *ret_fd)
{
	char path[FASTPATH_PINS_BYTES + 32];
	int fd;

	link_path(f, interface, out, path);
	fd = link_take_over(f, interface, out, path);
	if (fd < 0)
		fd = link_new(f, interface, out, path);
	*ret_fd = fd < 0 ? -1 : fd;
	/* A kernel without tcx does not know the attach type. */
	return fd == -EINVAL || fd == -EOPNOTSUPP ? classifier_attach(f, interface, out) : fd < 0 ? fd : 0;
}

static bool is_listed(const struct config *config, const char *name)
{
	unsigned i;

	for (i = 0; i < config->interface_count; i++) {
		if (strcmp(config->interface_name[i], name) == 0)
			return true;
	}
	return !config->interface_count || strcmp(config->shared_interface, name) == 0;
}

static bool is_ethernet(const struct ifaddrs *all, const char *name)
{
	for (; all; all = all->ifa_next) {
		const struct sockaddr_ll *link = (const struct sockaddr_ll *)(const void *)all->ifa_addr;

		if (link && link->sll_family == AF_PACKET && strcmp(all->ifa_name, name) == 0)
			return link->sll_hatype == ARPHRD_ETHER;
	}
	return false;
}

/*
 * True for a port of a bridge that the configuration does not name. Its frames come to the bridge's own interface, and
 * the programs there take them.
 */
static bool is_mere_port(const struct config *config, const char *name)
{
	char path[64 + IF_NAMESIZE];

	snprintf(path, sizeof(path), "/sys/class/net/%s/brport", name);
	return !config->interface_count && access(path, F_OK) == 0;
}

bool fastpath_is_attached(const struct fastpath *f, uint32_t interface)
{
	unsigned i;

	for (i = 0; i < f->link_count; i++) {
		if (f->links[i].interface == interface)
			return true;
	}
	return false;
}

static void detach_link(struct fastpath *f, struct fastpath_link *link)
{
	char path[FASTPATH_PINS_BYTES + 32];
	int out;

	for (out = 0; out < 2; out++) {
		link_path(f, link->interface, out, path);
		unlink(path);
		if (link->fd[out] >= 0)
			close(link->fd[out]);
		else
			fastpath_classifier_detach(link->interface, out);
	}
	*link = f->links[--f->link_count];
}

/* Forgets interfaces that are gone or have become ports of a bridge, and removes their pins. */
static void forget_gone(struct fastpath *f, const struct config *config)
{
	char name[IF_NAMESIZE];
	unsigned i = 0;

	while (i < f->link_count) {
		if (if_indextoname(f->links[i].interface, name) && !is_mere_port(config, name))
			i++;
		else
			detach_link(f, &f->links[i]);
	}
}

static bool is_own_address(const struct config *config, const struct addr *address)
{
	const struct member *self = &config->member[config->self];

	return addr_equal(&self->cluster_v4, address) || addr_equal(&self->cluster_v6, address) ||
	       config_member_by_service(config, address) == (int)config->self || config_is_shared(config, address);
}

/* True for an interface that has an address of this node in the cluster: clients and peers come by it. */
static bool is_needed(const struct ifaddrs *all, const struct config *config, const char *name)
{
	for (; all; all = all->ifa_next) {
		struct addr address = { .bytes = { 0 } };

		if (!all->ifa_addr || strcmp(all->ifa_name, name) != 0)
			continue;
		if (all->ifa_addr->sa_family == AF_INET)
			address = addr_from_v4(((struct sockaddr_in *)(void *)all->ifa_addr)->sin_addr.s_addr);
		else if (all->ifa_addr->sa_family == AF_INET6)
			address = addr_from_v6(&((struct sockaddr_in6 *)(void *)all->ifa_addr)->sin6_addr);
		if (!addr_is_zero(&address) && is_own_address(config, &address))
			return true;
	}
	return false;
}

/* Makes room for an interface that is needed. False: all others are needed, too. */
static bool make_room(struct fastpath *f, const struct ifaddrs *all, const struct config *config)
{
	unsigned i;

	for (i = 0; f->link_count == FASTPATH_LINKS_MAX && i < f->link_count; i++) {
		if (!is_needed(all, config, f->links[i].name))
			detach_link(f, &f->links[i]);
	}
	return f->link_count < FASTPATH_LINKS_MAX;
}

/* An interface may have several addresses, and is left out once. */
static void leave_out(struct fastpath *f, const char *name)
{
	unsigned i;

	for (i = 0; i < f->left_count && i < FASTPATH_LEFT_MAX; i++) {
		if (strcmp(f->left[i], name) == 0)
			return;
	}
	if (f->left_count < FASTPATH_LEFT_MAX)
		snprintf(f->left[f->left_count], sizeof(f->left[0]), "%s", name);
	f->left_count++;
}

static int attach_interface(struct fastpath *f, const char *name, char why[FASTPATH_WHY_BYTES])
{
	struct fastpath_link link = { .interface = if_nametoindex(name), .fd = { -1, -1 } };
	int out, error = 0;

	if (!link.interface)
		return 0;
	snprintf(link.name, sizeof(link.name), "%s", name);
	/* Egress first: the answers to tunnelled packets need it. */
	for (out = 1; out >= 0 && !error; out--)
		error = attach_one(f, link.interface, out, &link.fd[out]);
	if (error) {
		snprintf(why, FASTPATH_WHY_BYTES, "cannot attach the BPF programs to %s: %s", name, strerror(-error));
		return error;
	}
	f->links[f->link_count++] = link;
	log_debug("the BPF programs are attached to %s, by %s", name, link.fd[0] >= 0 ? "tcx" : "clsact");
	return 0;
}

/* The interface of a pin named like "in-7"; 0: another name. */
static uint32_t interface_of(const char *name)
{
	unsigned interface;
	int out, end;

	for (out = 0; out < 2; out++) {
		size_t length = strlen(directions[out]);

		if (!strncmp(name, directions[out], length) && sscanf(name + length, "-%u%n", &interface, &end) == 1 &&
		    !name[length + (size_t)end])
			return interface;
	}
	return 0;
}

/*
 * Detaches the programs of a former process from interfaces where this one has none: nobody updates their tables any
 * more.
 */
static void forget_unlisted(const struct fastpath *f)
{
	char path[FASTPATH_PINS_BYTES + 300];
	struct if_nameindex *all = if_nameindex(), *i;
	DIR *directory = opendir(f->pins);
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		uint32_t interface = interface_of(entry->d_name);

		snprintf(path, sizeof(path), "%s/%s", f->pins, entry->d_name);
		if (interface && !fastpath_is_attached(f, interface))
			unlink(path);
	}
	if (directory)
		closedir(directory);
	/* A host with links has no classifiers of a former process. */
	for (i = all; i && i->if_index && f->links[0].fd[0] < 0; i++) {
		if (!fastpath_is_attached(f, i->if_index)) {
			fastpath_classifier_detach(i->if_index, 0);
			fastpath_classifier_detach(i->if_index, 1);
		}
	}
	if_freenameindex(all);
}

/* True for an interface that gets the programs. */
static bool takes_programs(const struct ifaddrs *all, const struct ifaddrs *i, const struct config *config)
{
	return i->ifa_addr && (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6) &&
	       !(i->ifa_flags & IFF_LOOPBACK) && is_listed(config, i->ifa_name) && is_ethernet(all, i->ifa_name) &&
	       !is_mere_port(config, i->ifa_name);
}

bool fastpath_fits(const struct config *config, uint32_t interface)
{
	struct ifaddrs *all, *i;
	bool fits = false;

	if (getifaddrs(&all))
		return false;
	for (i = all; i && !fits; i = i->ifa_next)
		fits = takes_programs(all, i, config) && (!interface || if_nametoindex(i->ifa_name) == interface);
	freeifaddrs(all);
	return fits;
}

/* One round: the interfaces that are needed, or the others. */
static int attach_all(struct fastpath *f, const struct ifaddrs *all, const struct config *config, bool needed,
		      char why[FASTPATH_WHY_BYTES])
{
	const struct ifaddrs *i;
	int error = 0;

	for (i = all; i && !error; i = i->ifa_next) {
		if (!takes_programs(all, i, config) || fastpath_is_attached(f, if_nametoindex(i->ifa_name)) ||
		    is_needed(all, config, i->ifa_name) != needed)
			continue;
		if (f->link_count == FASTPATH_LINKS_MAX && !(needed && make_room(f, all, config)))
			leave_out(f, i->ifa_name);
		else
			error = attach_interface(f, i->ifa_name, why);
	}
	return error;
}

int fastpath_attach(struct fastpath *f, const struct config *config, char why[FASTPATH_WHY_BYTES])
{
	struct ifaddrs *all;
	int error;

	forget_gone(f, config);
	if (getifaddrs(&all))
		return -errno;
	f->left_count = 0;
	error = attach_all(f, all, config, true, why);
	if (!error)
		error = attach_all(f, all, config, false, why);
	freeifaddrs(all);
	if (!error && !f->link_count) {
		snprintf(why, FASTPATH_WHY_BYTES, "there is no Ethernet interface with an address%s",
			 config->interface_count ? " among [Datapath] Interfaces=" : "");
		error = -ENODEV;
	}
	if (!error)
		error = fastpath_pin_flows(f);
	/* The next dprd may be the unit's, which is not root and must open all of it. */
	if (!error && owner_give_all(f->pins, config->pin_dir))
		log_debug("cannot give %s to the owner of %s", f->pins, config->pin_dir);
	if (!error && !f->attached) {
		forget_unlisted(f);
		f->attached = true;
	}
	return error;
}

void fastpath_detach(struct fastpath *f, bool keep)
{
	unsigned i;
	int out;

	for (i = 0; i < f->link_count; i++) {
		for (out = 0; out < 2; out++) {
			if (f->links[i].fd[out] >= 0)
				close(f->links[i].fd[out]);
			else if (!keep)
				fastpath_classifier_detach(f->links[i].interface, out);
		}
	}
	f->link_count = 0;
	if (!keep)
		fastpath_unpin(f->pins);
}

static uint32_t program_id(int fd)
{
	struct bpf_prog_info info = { 0 };
	uint32_t size = sizeof(info);

	return fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &size) ? info.id : 0;
}

bool fastpath_in_front(const struct fastpath *f, uint32_t interface, char name[FASTPATH_PROGRAM_BYTES])
{
	uint32_t ids[PROGRAMS_MAX] = { 0 };
	LIBBPF_OPTS(bpf_prog_query_opts, query, .prog_ids = ids, .prog_cnt = PROGRAMS_MAX);
	struct bpf_prog_info info = { 0 };
	uint32_t size = sizeof(info);
	int fd;

	/* With more programs than asked for the kernel gives the first ones, and an error. */
	bpf_prog_query_opts((int)interface, (enum bpf_attach_type)TCX_INGRESS, &query);
	if (!ids[0] || ids[0] == program_id(program_fd(f, 0)))
		return false;
	snprintf(name, FASTPATH_PROGRAM_BYTES, "number %u", ids[0]);
	fd = bpf_prog_get_fd_by_id(ids[0]);
	if (fd < 0)
		return true;
	if (!bpf_obj_get_info_by_fd(fd, &info, &size) && info.name[0])
		snprintf(name, FASTPATH_PROGRAM_BYTES, "%.*s", (int)sizeof(info.name), info.name);
	close(fd);
	return true;
}

void fastpath_interfaces(const struct fastpath *f, char *text, size_t bytes)
{
	size_t used = 0;
	unsigned i;

	*text = '\0';
	for (i = 0; i < f->link_count && used < bytes; i++)
		used += (size_t)snprintf(text + used, bytes - used, "%s%s", i ? ", " : "", f->links[i].name);
}
