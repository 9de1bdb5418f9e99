// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "dprd/web/serve.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "dprd/base/clock.h"
#include "dprd/base/log.h"

enum {
	SERVE_THREADS = 2, /* one may wait for dprd */
	SERVE_CONNECTION_BYTES = 8192, /* a request's line and headers must fit */
	SERVE_IDLE_S = 10,
};

/* The files of the page, which page.S takes into the program. */
extern const char web_page[], web_page_end[], web_style[], web_style_end[], web_script[], web_script_end[], web_icon[],
	web_icon_end[];

static const struct web_file {
	const char *begin, *end, *type;
} files[] = {
	[WEB_PAGE] = { web_page, web_page_end, "text/html; charset=utf-8" },
	[WEB_STYLE] = { web_style, web_style_end, "text/css; charset=utf-8" },
	[WEB_SCRIPT] = { web_script, web_script_end, "text/javascript; charset=utf-8" },
	[WEB_ICON] = { web_icon, web_icon_end, "image/svg+xml" },
};

/* A browser loads nothing from elsewhere, shows the page in no frame, and keeps none of it. */
static const char *const headers[][2] = {
	{ "Content-Security-Policy",
	  "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'" },
	{ "X-Content-Type-Options", "nosniff" },
	{ "Cache-Control", "no-store" },
	{ "Referrer-Policy", "no-referrer" },
	{ "Cross-Origin-Resource-Policy", "same-origin" },
};

static enum MHD_Result send_response(struct MHD_Connection *connection, unsigned status, struct MHD_Response *response,
				     const char *type)
{
	enum MHD_Result result = MHD_YES;
	size_t i;

	if (!response)
		return MHD_NO;
	for (i = 0; i < sizeof(headers) / sizeof(headers[0]) && result == MHD_YES; i++)
		result = MHD_add_response_header(response, headers[i][0], headers[i][1]);
	if (result == MHD_YES)
		result = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED && result == MHD_YES)
		result = MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	if (result == MHD_YES)
		result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

/* text: from malloc(); it belongs to the response. NULL: there was no memory for it. */
static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned status, char *text, size_t bytes,
				 const char *type)
{
	struct MHD_Response *response;

	if (!text)
		return MHD_NO;
	response = MHD_create_response_from_buffer(bytes, text, MHD_RESPMEM_MUST_FREE);
	if (!response)
		free(text);
	return send_response(connection, status, response, type);
}

static enum MHD_Result send_constant(struct MHD_Connection *connection, unsigned status, const char *text, size_t bytes,
				     const char *type)
{
	return send_response(connection, status,
			     MHD_create_response_from_buffer(bytes, (char *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT),
			     type);
}

static enum MHD_Result send_error(struct MHD_Connection *connection, unsigned status)
{
	static const struct {
		unsigned status;
		const char *text;
	} errors[] = {
		{ MHD_HTTP_BAD_REQUEST, "Bad request: a Host header is needed\n" },
		{ MHD_HTTP_NOT_FOUND,
		  "Not found. There are /, /status.json, /history.json, /why.json?client=ADDRESS:PORT and /metrics\n" },
		{ MHD_HTTP_METHOD_NOT_ALLOWED, "Only GET and HEAD: nothing can be changed here\n" },
		{ MHD_HTTP_MISDIRECTED_REQUEST,
		  "This is not a name of this server: start dprd-web with --name to allow it\n" },
	};
	const char *text = "This request has no answer\n";
	size_t i;

	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (errors[i].status == status)
			text = errors[i].text;
	}
	return send_constant(connection, status, text, strlen(text), "text/plain; charset=utf-8");
}

static enum MHD_Result send_why(struct web_serve *serve, struct MHD_Connection *connection)
{
	static const char type[] = "application/json";
	static const char wrong[] =
		"{\"error\":\"client is an address, and a port behind it: 203.0.113.7:50122 or [2001:db8::7]:50122\"}";
	const char *text = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "client");
	struct endpoint client;
	char *answer = NULL;
	unsigned status;

	if (!text || !parse_endpoint(text, false, &client))
		return send_constant(connection, MHD_HTTP_BAD_REQUEST, wrong, sizeof(wrong) - 1, type);
	status = web_poll_why(serve->poll, &client, &answer);
	return send_text(connection, status, answer, answer ? strlen(answer) : 0, type);
}

static enum MHD_Result send_kept(struct web_serve *serve, struct MHD_Connection *connection, enum web_target target)
{
	size_t bytes;
	char *text = web_poll_text(serve->poll, target, &bytes);

	return send_text(connection, MHD_HTTP_OK, text, bytes,
			 target == WEB_METRICS ? "text/plain; version=0.0.4; charset=utf-8" : "application/json");
}

static void on_connection(void *context, struct MHD_Connection *connection, void **slot,
			  enum MHD_ConnectionNotificationCode code)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct web_serve *serve = context;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED)
		connection_end(&serve->connections, *slot);
	else
		*slot = info ? connection_begin(&serve->connections, info->connect_fd, clock_now_ms()) : NULL;
}

static void note_request(struct web_serve *serve, struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	if (info)
		connection_asked(&serve->connections, info->socket_context, clock_now_ms());
}

/* Called as soon as the headers of a request are there: no answer depends on a body. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *path,
				  const char *method, const char *version, const char *upload, size_t *upload_bytes,
				  void **request_context)
{
	struct web_serve *serve = context;
	const struct web_request request = {
		.method = method,
		.path = path,
		.host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST),
		.names = serve->names,
		.name_count = serve->name_count,
	};
	enum web_target target = WEB_PAGE;
	unsigned status = web_route(&request, &target);

	(void)version;
	(void)upload;
	(void)upload_bytes;
	(void)request_context;
	note_request(serve, connection);
	if (status != MHD_HTTP_OK)
		return send_error(connection, status);
	switch (target) {
	case WEB_WHY:
		return send_why(serve, connection);
	case WEB_STATUS:
	case WEB_HISTORY:
	case WEB_METRICS:
		return send_kept(serve, connection, target);
	default:
		return send_constant(connection, MHD_HTTP_OK, files[target].begin,
				     (size_t)(files[target].end - files[target].begin), files[target].type);
	}
}

bool web_serve_start(struct web_serve *serve, int fd)
{
	connections_init(&serve->connections);
	serve->daemon = MHD_start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, serve, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_THREAD_POOL_SIZE, (unsigned)SERVE_THREADS, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SERVE_CONNECTION_BYTES,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SERVE_IDLE_S, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
		serve, MHD_OPTION_END);
	if (!serve->daemon)
		log_err("cannot start the HTTP server: out of memory or of file descriptors");
	return serve->daemon;
}

void web_serve_tick(struct web_serve *serve)
{
	connections_sweep(&serve->connections, clock_now_ms());
}

void web_serve_stop(struct web_serve *serve)
{
	MHD_stop_daemon(serve->daemon);
}
