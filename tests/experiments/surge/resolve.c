// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * resolve.c - lookups by getaddrinfo_a(), a few at once, the others in a queue.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tests/experiments/surge/resolve.h"

struct resolver {
	int fd;
	unsigned under_way;
	struct addrinfo hints;
	struct name *first, **last; /* the queue */
	struct name *failed; /* could not even be asked */
};

struct resolver *resolver_new(int family)
{
	struct resolver *resolver = calloc(1, sizeof(*resolver));
	sigset_t signals;

	if (!resolver)
		return NULL;
	sigemptyset(&signals);
	sigaddset(&signals, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	resolver->fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
	if (resolver->fd < 0) {
		free(resolver);
		return NULL;
	}
	resolver->hints.ai_family = family;
	resolver->hints.ai_socktype = SOCK_STREAM;
	resolver->hints.ai_flags = AI_NUMERICSERV;
	resolver->last = &resolver->first;
	return resolver;
}

void resolver_free(struct resolver *resolver)
{
	if (!resolver)
		return;
	close(resolver->fd);
	/* The threads of lookups under way read the hints. */
	if (!resolver->under_way)
		free(resolver);
}

int resolver_fd(const struct resolver *resolver)
{
	return resolver->fd;
}

unsigned resolver_under_way(const struct resolver *resolver)
{
	return resolver->under_way;
}

static void start_queued(struct resolver *resolver)
{
	while (resolver->first && resolver->under_way < LOOKUPS_AT_ONCE) {
		struct name *name = resolver->first;
		struct gaicb *list[1] = { name->request };
		struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };

		resolver->first = name->next;
		if (!resolver->first)
			resolver->last = &resolver->first;
		event.sigev_value.sival_ptr = name;
		if (name->request && getaddrinfo_a(GAI_NOWAIT, list, 1, &event) == 0) {
			resolver->under_way++;
			continue;
		}
		/* Reported like any answer, so that no caller is called back from within its call. */
		name->next = resolver->failed;
		resolver->failed = name;
		sigqueue(getpid(), SIGRTMIN, (union sigval) { .sival_ptr = NULL });
	}
}

void resolver_ask(struct resolver *resolver, struct name *name)
{
	if (name->state != NAME_UNKNOWN)
		return;
	name->state = NAME_ASKED;
	name->request = calloc(1, sizeof(*name->request));
	if (name->request) {
		name->request->ar_name = name->host;
		name->request->ar_service = name->port;
		name->request->ar_request = &resolver->hints;
	}
	name->next = NULL;
	*resolver->last = name;
	resolver->last = &name->next;
	start_queued(resolver);
}

static void take_addresses(struct name *name)
{
	struct addrinfo *info = name->request->ar_result;

	name->addresses.count = 0;
	if (gai_error(name->request) == 0)
		for (; info && name->addresses.count < ADDRESSES_MAX; info = info->ai_next)
			if (info->ai_addrlen <= sizeof(union address))
				memcpy(&name->addresses.all[name->addresses.count++], info->ai_addr, info->ai_addrlen);
	if (name->request->ar_result)
		freeaddrinfo(name->request->ar_result);
	free(name->request);
	name->request = NULL;
	name->state = name->addresses.count ? NAME_KNOWN : NAME_UNKNOWN;
}

struct name *resolver_answer(struct resolver *resolver)
{
	struct signalfd_siginfo told;
	struct name *name;

	for (;;) {
		if (resolver->failed) {
			name = resolver->failed;
			resolver->failed = name->next;
			free(name->request);
			name->request = NULL;
			name->state = NAME_UNKNOWN;
			return name;
		}
		if (read(resolver->fd, &told, sizeof(told)) != sizeof(told))
			return NULL;
		if (!told.ssi_ptr)
			continue;
		name = (struct name *)(uintptr_t)told.ssi_ptr;
		resolver->under_way--;
		take_addresses(name);
		start_queued(resolver);
		return name;
	}
}

bool address_literal(const char *host, uint16_t port, union address *address)
{
	memset(address, 0, sizeof(*address));
	if (inet_pton(AF_INET, host, &address->v4.sin_addr) == 1) {
		address->v4.sin_family = AF_INET;
		address->v4.sin_port = htons(port);
		return true;
	}
	if (inet_pton(AF_INET6, host, &address->v6.sin6_addr) == 1) {
		address->v6.sin6_family = AF_INET6;
		address->v6.sin6_port = htons(port);
		return true;
	}
	return false;
}

socklen_t address_bytes(const union address *address)
{
	return address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
}

void address_text(const union address *address, char text[ADDRESS_TEXT_BYTES])
{
	char host[INET6_ADDRSTRLEN] = "?";

	if (address->any.sa_family == AF_INET) {
		inet_ntop(AF_INET, &address->v4.sin_addr, host, sizeof(host));
		snprintf(text, ADDRESS_TEXT_BYTES, "%s:%u", host, ntohs(address->v4.sin_port));
	} else {
		inet_ntop(AF_INET6, &address->v6.sin6_addr, host, sizeof(host));
		snprintf(text, ADDRESS_TEXT_BYTES, "[%s]:%u", host, ntohs(address->v6.sin6_port));
	}
}
