// SPDX-License-Identifier: GPL-2.0-or-later
/* The first bytes of any server's answer: nothing is read behind them, and once they are understood, they stay so. */
#include <stdlib.h>
#include <string.h>

#include "loadcast/core/speech.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum speech known = SPEECH_UNKNOWN;
	unsigned code;

	for (size_t part = 0; part <= size && part <= SPEECH_BYTES; part++) {
		char *bytes = malloc(part + 1);
		enum speech speech;

		if (!bytes)
			abort();
		if (part)
			memcpy(bytes, data, part);
		/* The byte behind must not count. */
		bytes[part] = (char)(part < size ? data[part] : '0');
		speech = speech_of(bytes, part, false, &code);
		if ((known != SPEECH_UNKNOWN && speech != known) || (speech == SPEECH_HTTP && code > 999) ||
		    (speech == SPEECH_TLS && code > 255))
			abort();
		if (part && speech_of(bytes, part, true, &code) == SPEECH_UNKNOWN)
			abort();
		known = speech;
		free(bytes);
	}
	return 0;
}
