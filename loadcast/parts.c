// SPDX-License-Identifier: GPL-2.0-or-later
#include "loadcast/parts.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

#include "dprd/base/log.h"

void parts_free(struct parts *p)
{
	agent_free(p->agent);
	backends_free(p->servers);
	sampler_free(p->sampler);
	mcast_close(p->mcast);
	if (p->setup)
		sodium_memzero(&p->setup->keys, sizeof(p->setup->keys));
	free(p->setup);
	*p = (struct parts) { 0 };
}

int parts_make(const struct options *options, struct parts *ret)
{
	char message[CONFIG_ERROR_BYTES];
	struct parts p = { .setup = setup_read(options, false) };

	if (!p.setup)
		return -EINVAL;
	p.mcast = mcast_open(&p.setup->config, MCAST_MEMBER, message);
	if (!p.mcast) {
		log_err("%s", message);
		goto fail;
	}
	p.sampler = sampler_new(&p.setup->config);
	if (!p.sampler) {
		log_err("cannot read the load of this host (/proc/net/sockstat, /proc/stat, sock_diag): %s",
			strerror(errno));
		goto fail;
	}
	p.servers = backends_new(&p.setup->config);
	p.agent = agent_new(&p.setup->config);
	if (!p.servers || !p.agent) {
		log_err("out of memory");
		goto fail;
	}
	*ret = p;
	return 0;
fail:
	parts_free(&p);
	return -EINVAL;
}
