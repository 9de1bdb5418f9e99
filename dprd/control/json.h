/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * control/json.h - makes the values of all answers, and reads the values of a request.
 *
 * A value that is not known is null, never 0. Functions that make a value return NULL without memory.
 */
#ifndef DPRD_CONTROL_JSON_H
#define DPRD_CONTROL_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct addr;
struct config;

/* {"error":text} */
json_t *control_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Text of an object's member; NULL when it is absent. Sets *bad when it is not a text. */
const char *control_get_text(const json_t *request, const char *key, bool *bad);

/* A whole number from 0 to max; the value of absent when there is none. Sets *bad when it is anything else. */
uint64_t control_get_count(const json_t *request, const char *key, uint64_t max, uint64_t absent, bool *bad);

/* Text as JSON, whatever its bytes are. */
json_t *control_text(const char *text);
/* A number with three digits behind the point; null when it is not finite. */
json_t *control_real(double value);
/* An address; null when it is all zero. */
json_t *control_address(const struct addr *address);
/* A count; null when it is not known. */
json_t *control_count(bool known, uint64_t count);

/* The name of a member or an own real server by its id; "id:1f2e3d4c" when the configuration has none.
 * buffer: NAME_BYTES. */
const char *control_node_name(const struct config *config, uint32_t node_id, char *buffer);

#endif
