// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "loadcast/https.h"

#include <ctype.h>
#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include "dprd/base/clock.h"

enum { URL_BYTES = 64 + PATH_BYTES + HOST_BYTES, HEADER_BYTES = 16 + HOST_BYTES, PLACE_BYTES = ADDR_TEXT_BYTES + 16 };

#define CURL_FUNCTIONS(X)      \
	X(global_init)         \
	X(easy_init)           \
	X(easy_setopt)         \
	X(easy_getinfo)        \
	X(easy_strerror)       \
	X(easy_cleanup)        \
	X(multi_init)          \
	X(multi_setopt)        \
	X(multi_add_handle)    \
	X(multi_remove_handle) \
	X(multi_socket_action) \
	X(multi_info_read)     \
	X(multi_cleanup)       \
	X(slist_append)        \
	X(slist_free_all)

static struct {
	void *library;
#define X(name) typeof(curl_##name) *name;
	CURL_FUNCTIONS(X)
#undef X
} curl;

/*
 * One for all probes, and for ever: it keeps the authorities of the host (Verify=), which take 20 ms of a processor to read.
 */
static struct {
	CURLM *multi;
	uint64_t due_ms;
} all;

struct https {
	CURL *easy;
	struct curl_slist *header, *connect_to;
	curl_socket_t socket;
	int wants; /* CURL_POLL_IN, OUT or INOUT */
	bool added, over; /* to all.multi; over: with this result */
	CURLcode result;
	char error[CURL_ERROR_SIZE];
};

static bool find_functions(void *library)
{
#define X(function)                                                   \
	*(void **)&curl.function = dlsym(library, "curl_" #function); \
	if (!curl.function)                                           \
		return false;
	CURL_FUNCTIONS(X)
#undef X
	return true;
}

int https_load(char message[CONFIG_ERROR_BYTES])
{
	void *library;

	if (curl.library)
		return 0;
	library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		library = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
	if (!library || !find_functions(library) || curl.global_init(CURL_GLOBAL_DEFAULT)) {
		snprintf(message, CONFIG_ERROR_BYTES, "Check=https needs libcurl (Debian's package libcurl4): %s",
			 library ? "it is of another version" : dlerror());
		if (library)
			dlclose(library);
		return -ENOENT;
	}
	/* TLS writes to connections that the server has closed. */
	signal(SIGPIPE, SIG_IGN);
	curl.library = library;
	return 0;
}

static int on_socket(CURL *easy, curl_socket_t socket_, int what, void *context, void *unused)
{
	struct https *h = NULL;

	(void)context;
	(void)unused;
	if (curl.easy_getinfo(easy, CURLINFO_PRIVATE, &h) || !h)
		return 0;
	if (what != CURL_POLL_REMOVE) {
		h->socket = socket_;
		h->wants = what;
	} else if (h->socket == socket_) {
		h->socket = -1;
	}
	return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *context)
{
	(void)multi;
	(void)context;
	/* Never early: libcurl does not ask a second time. */
	all.due_ms = timeout_ms < 0 ? UINT64_MAX : clock_now_ms() + (uint64_t)timeout_ms + (timeout_ms > 0);
	return 0;
}

/* The header is complete when the page begins: that is enough. */
static size_t on_page(const char *bytes, size_t size, size_t count, void *context)
{
	(void)bytes;
	(void)size;
	(void)count;
	(void)context;
	return 0;
}

static bool set_place(struct https *h, const struct config *config, const struct addr *address, uint16_t port)
{
	bool v4 = addr_is_v4(address);
	char text[ADDR_TEXT_BYTES], place[PLACE_BYTES], url[URL_BYTES], header[HEADER_BYTES];
	const char *host = config->health_host;

	addr_format(address, text);
	snprintf(place, sizeof(place), "::%s%s%s:%u", v4 ? "" : "[", text, v4 ? "" : "]", port);
	if (*host) {
		snprintf(url, sizeof(url), "https://%s:%u%s", host, port, config->health_path);
		snprintf(header, sizeof(header), "Host: %s", host);
		h->header = curl.slist_append(NULL, header);
	} else {
		snprintf(url, sizeof(url), "https://%s%s%s:%u%s", v4 ? "" : "[", text, v4 ? "" : "]", port,
			 config->health_path);
	}
	h->connect_to = curl.slist_append(NULL, place);
	return (h->header || !*host) && h->connect_to && !curl.easy_setopt(h->easy, CURLOPT_URL, url) &&
	       !curl.easy_setopt(h->easy, CURLOPT_CONNECT_TO, h->connect_to) &&
	       !curl.easy_setopt(h->easy, CURLOPT_HTTPHEADER, h->header);
}

/*
 * libcurl keeps the authorities of one file, and none while it has a directory of them, too. Without a file, the directory
 * stays: from that it reads single authorities.
 */
static bool set_verify(struct https *h, bool verify)
{
	char *file = NULL;

	return !curl.easy_setopt(h->easy, CURLOPT_SSL_VERIFYPEER, (long)verify) &&
	       !curl.easy_setopt(h->easy, CURLOPT_SSL_VERIFYHOST, verify ? 2L : 0L) &&
	       (curl.easy_getinfo(h->easy, CURLINFO_CAINFO, &file) || !file ||
		!curl.easy_setopt(h->easy, CURLOPT_CAPATH, NULL));
}

static bool set_options(struct https *h, bool verify)
{
	static const struct {
		CURLoption option;
		long value;
	} numbers[] = {
		{ CURLOPT_NOSIGNAL, 1 },      { CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1 },
		{ CURLOPT_FRESH_CONNECT, 1 }, { CURLOPT_FORBID_REUSE, 1 },
		{ CURLOPT_PATH_AS_IS, 1 },
	};

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		if (curl.easy_setopt(h->easy, numbers[i].option, numbers[i].value))
			return false;
	}
	return set_verify(h, verify) && !curl.easy_setopt(h->easy, CURLOPT_PRIVATE, h) &&
	       !curl.easy_setopt(h->easy, CURLOPT_PROXY, "") &&
	       !curl.easy_setopt(h->easy, CURLOPT_USERAGENT, "loadcast") &&
	       !curl.easy_setopt(h->easy, CURLOPT_ERRORBUFFER, h->error) &&
	       !curl.easy_setopt(h->easy, CURLOPT_WRITEFUNCTION, on_page);
}

static bool make_multi(void)
{
	if (all.multi)
		return true;
	all.multi = curl.multi_init();
	all.due_ms = UINT64_MAX;
	if (all.multi && !curl.multi_setopt(all.multi, CURLMOPT_SOCKETFUNCTION, on_socket) &&
	    !curl.multi_setopt(all.multi, CURLMOPT_TIMERFUNCTION, on_timer))
		return true;
	if (all.multi)
		curl.multi_cleanup(all.multi);
	all.multi = NULL;
	return false;
}

struct https *https_ask(const struct config *config, const struct addr *address, uint16_t port)
{
	struct https *h = curl.library && make_multi() ? calloc(1, sizeof(*h)) : NULL;

	if (!h)
		return NULL;
	h->socket = -1;
	h->easy = curl.easy_init();
	if (h->easy && set_place(h, config, address, port) && set_options(h, config->health_verify) &&
	    !curl.multi_add_handle(all.multi, h->easy)) {
		h->added = true;
		return h;
	}
	https_free(h);
	return NULL;
}

void https_free(struct https *https)
{
	if (!https)
		return;
	if (https->added)
		curl.multi_remove_handle(all.multi, https->easy);
	if (https->easy)
		curl.easy_cleanup(https->easy);
	curl.slist_free_all(https->connect_to);
	curl.slist_free_all(https->header);
	free(https);
}

int https_socket(const struct https *https, short *ret_events)
{
	*ret_events =
		(short)((https->wants & CURL_POLL_IN ? POLLIN : 0) | (https->wants & CURL_POLL_OUT ? POLLOUT : 0));
	return https->socket;
}

uint64_t https_due_ms(const struct https *https)
{
	return https->over ? 0 : all.due_ms;
}

/* libcurl's words, or those of TLS, without what a log must not have. */
static void take_error(const struct https *h, CURLcode code, char error[HTTPS_ERROR_BYTES])
{
	snprintf(error, HTTPS_ERROR_BYTES, "%.*s", HTTPS_ERROR_BYTES - 1,
		 h->error[0] ? h->error : curl.easy_strerror(code));
	for (char *c = error; *c; c++)
		*c = isprint((unsigned char)*c) ? *c : '?';
}

/* One call may end several probes. */
static void take_ends(void)
{
	const CURLMsg *message;
	struct https *h;
	int left;

	while ((message = curl.multi_info_read(all.multi, &left))) {
		h = NULL;
		if (message->msg != CURLMSG_DONE || curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &h) || !h)
			continue;
		h->over = true;
		h->result = message->data.result;
	}
}

bool https_go_on(struct https *https, short revents, uint64_t now_ms, unsigned *ret_status,
		 char error[HTTPS_ERROR_BYTES])
{
	int bits = (revents & POLLIN ? CURL_CSELECT_IN : 0) | (revents & POLLOUT ? CURL_CSELECT_OUT : 0) |
		   (revents & (POLLERR | POLLHUP) ? CURL_CSELECT_ERR : 0);
	long status = 0;
	int running;

	if (revents && https->socket >= 0) {
		curl.multi_socket_action(all.multi, https->socket, bits, &running);
	} else if (!https->over && now_ms >= all.due_ms) {
		all.due_ms = UINT64_MAX;
		curl.multi_socket_action(all.multi, CURL_SOCKET_TIMEOUT, 0, &running);
	}
	take_ends();
	if (!https->over)
		return false;
	*ret_status = 0;
	/* The page was refused on purpose. */
	if (https->result == CURLE_OK || https->result == CURLE_WRITE_ERROR)
		curl.easy_getinfo(https->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status > 0)
		*ret_status = (unsigned)status;
	else
		take_error(https, https->result, error);
	return true;
}
