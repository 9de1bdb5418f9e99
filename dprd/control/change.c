// SPDX-License-Identifier: GPL-2.0-or-later
/* control/change.c - drain, undrain, reload; and config, which shows the configuration in effect. */
#include "dprd/control/control.h"

#include <stdlib.h>

#include "dprd/base/log.h"
#include "dprd/plane/decide.h"
#include "dprd/control/json.h"
#include "dprd/upkeep/kept.h"
#include "dprd/upkeep/reload.h"

static json_t *set_draining(struct dprd *d, bool draining)
{
	char note[CONFIG_ERROR_BYTES] = "";
	struct flow_counts flows;
	bool before;
	int error = kept_drain(d, draining);

	mutex_lock(&d->lock);
	before = d->draining;
	d->draining = draining;
	flows = flow_counts(d->flows);
	mutex_unlock(&d->lock);
	plane_decide_now(d);
	if (before != draining)
		log_info("%s", draining ? "draining: new connections go to the peers" : "no longer draining");
	if (error) {
		snprintf(note, sizeof(note), "a restart of dprd will not know that this node %s: %s: %s",
			 draining ? "drains" : "no longer drains", d->config.run_dir, strerror(-error));
		log_warning("%s", note);
	}
	return json_pack("{s:s, s:o, s:b, s:I, s:o}", "schema", "dprd.drain/1", "node",
			 control_text(d->config.node_name), "draining", draining, "flows",
			 (json_int_t)flows.half_open + flows.confirmed, "note", control_text(note));
}

json_t *control_drain(struct dprd *d, const struct control_query *query)
{
	(void)query;
	return set_draining(d, true);
}

json_t *control_undrain(struct dprd *d, const struct control_query *query)
{
	(void)query;
	return set_draining(d, false);
}

json_t *control_reload(struct dprd *d, const struct control_query *query)
{
	struct config_errors *errors = calloc(1, sizeof(*errors));
	char note[CONFIG_ERROR_BYTES] = "";
	json_t *texts, *answer;
	int error;
	unsigned i;

	(void)query;
	if (!errors)
		return control_error("out of memory");
	error = reload_config(d, errors, note);
	if (!error) {
		free(errors);
		return json_pack("{s:s, s:o, s:o}", "schema", "dprd.reload/1", "node",
				 control_text(d->config.node_name), "note", control_text(note));
	}
	texts = json_array();
	for (i = 0; i < errors->count && i < CONFIG_ERRORS_MAX; i++)
		json_array_append_new(texts, control_text(errors->text[i]));
	if (!errors->count)
		json_array_append_new(texts, control_text(strerror(-error)));
	answer = control_error("the reload failed: dprd goes on with the former configuration");
	json_object_set_new(answer, "errors", texts);
	free(errors);
	return answer;
}

json_t *control_config(struct dprd *d, const struct control_query *query)
{
	char *text = config_format(&d->config);
	json_t *made = text ? json_string(text) : NULL;

	(void)query;
	free(text);
	if (!made)
		return control_error("the configuration cannot be shown: out of memory, or not UTF-8");
	return json_pack("{s:s, s:o, s:o}", "schema", "dprd.config/1", "node", control_text(d->config.node_name),
			 "text", made);
}
