// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every named file goes once through a fuzzer's function, as with libFuzzer: in memory of just its size, so that
 * AddressSanitizer sees a read behind its end. Linked with one fuzz_NAME.c. The last name printed is that of the input
 * that broke it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

enum { INPUT_MAX_BYTES = 1 << 20, INPUT_CPU_S = 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An input that takes longer ends the process; the time of others does not count. */
static void limit_time(void)
{
	const struct itimerval limit = { .it_value.tv_sec = INPUT_CPU_S };

	setitimer(ITIMER_PROF, &limit, NULL);
}

static void give(const uint8_t *bytes, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);
	size_t i;

	if (!exact)
		abort();
	for (i = 0; i < size; i++)
		exact[i] = bytes[i];
	limit_time();
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
}

static int replay(const char *path)
{
	static uint8_t bytes[INPUT_MAX_BYTES];
	FILE *file = fopen(path, "rb");
	size_t size;

	printf("%s\n", path);
	fflush(stdout);
	if (!file) {
		perror(path);
		return 1;
	}
	size = fread(bytes, 1, sizeof(bytes), file);
	if (ferror(file) || !feof(file)) {
		fprintf(stderr, "%s: cannot be read, or is too long\n", path);
		fclose(file);
		return 1;
	}
	fclose(file);
	give(bytes, size);
	return 0;
}

int main(int argc, char **argv)
{
	int i, failed = argc < 2;

	give((const uint8_t *)"", 0);
	for (i = 1; i < argc; i++)
		failed |= replay(argv[i]);
	return failed;
}
