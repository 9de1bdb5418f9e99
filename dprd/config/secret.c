// SPDX-License-Identifier: GPL-2.0-or-later
/* config/secret.c - the cluster key, read from a file that only dprd's group may read. */
#include "dprd/config/config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	KEY_BYTES = 32,
	KEY_FILE_BYTES_MAX = 1024,
};

/* NULL when the file is safe enough for a secret; else the fault as text. */
static const char *mode_fault(mode_t mode)
{
	if (mode & S_IROTH)
		return "readable by everyone; chmod 640 it";
	if (mode & S_IWOTH)
		return "writable by everyone; chmod 640 it";
	if (mode & S_IWGRP)
		return "writable by its group; chmod 640 it";
	if (mode & (S_IXGRP | S_IXOTH))
		return "executable by others than its owner; chmod 640 it";
	return NULL;
}

/* NULL and *ret_fd open; or the fault as text, *ret_fd -1 and *ret_error set. */
static const char *open_secret(const char *path, int *ret_fd, int *ret_error)
{
	const char *fault = NULL;
	struct stat st;
	/* O_NONBLOCK: opening a FIFO would wait for its writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	*ret_fd = -1;
	if (fd < 0) {
		*ret_error = errno;
		if (errno == ENOENT)
			return "no such file; make one with: dprctl genkey > FILE (then chmod 640, and copy it to "
			       "every node)";
		if (errno == EACCES)
			return "this user may not read it; chgrp dprd and chmod 640 it";
		return strerror(errno);
	}
	*ret_error = EPERM;
	if (fstat(fd, &st) < 0) {
		*ret_error = errno;
		fault = strerror(errno);
	} else if (!S_ISREG(st.st_mode)) {
		*ret_error = EINVAL;
		fault = "not a regular file; make one with: dprctl genkey > FILE";
	} else {
		fault = mode_fault(st.st_mode);
	}
	if (fault)
		close(fd);
	else
		*ret_fd = fd;
	return fault;
}

/* 64 digits are the key itself; a hash of more digits is the key. NULL, or the fault as text. */
static const char *key_from_hex(const char *text, size_t length, uint8_t key[KEY_BYTES])
{
	uint8_t bytes[KEY_FILE_BYTES_MAX / 2];
	const char *fault = NULL;
	size_t count = 0;

	/* An editor may have put a byte order mark before it, as before a configuration. */
	if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		text += 3;
		length -= 3;
	}
	while (length && isspace((unsigned char)text[length - 1]))
		length--;
	while (length && isspace((unsigned char)*text)) {
		text++;
		length--;
	}
	if (sodium_hex2bin(bytes, sizeof(bytes), text, length, NULL, &count, NULL) != 0)
		fault = "not an even number of hex digits in one line; make one with: dprctl genkey > FILE";
	else if (count < KEY_BYTES)
		fault = "shorter than 64 hex digits; make one with: dprctl genkey > FILE";
	else if (sodium_is_zero(bytes, count))
		fault = "all zeros are no secret; make one with: dprctl genkey > FILE";
	else if (count == KEY_BYTES)
		memcpy(key, bytes, KEY_BYTES);
	else
		crypto_generichash(key, KEY_BYTES, bytes, count, NULL, 0);
	sodium_memzero(bytes, sizeof(bytes));
	return fault;
}

int config_read_key(const char *path, uint8_t key[32], char message[CONFIG_ERROR_BYTES])
{
	char text[KEY_FILE_BYTES_MAX + 1];
	const char *fault;
	ssize_t length = 0, got = 1;
	int fd, error = 0;

	fault = open_secret(path, &fd, &error);
	while (!fault && got > 0 && length < (ssize_t)sizeof(text)) {
		got = read(fd, text + length, sizeof(text) - (size_t)length);
		if (got < 0 && errno == EINTR)
			got = 1;
		else if (got > 0)
			length += got;
		else if (got < 0)
			fault = strerror(error = errno);
	}
	if (fd >= 0)
		close(fd);
	if (!fault) {
		error = EINVAL;
		fault = length > KEY_FILE_BYTES_MAX ? "larger than 1024 bytes; make one with: dprctl genkey > FILE"
						    : key_from_hex(text, (size_t)length, key);
	}
	sodium_memzero(text, sizeof(text));
	if (!fault)
		return 0;
	snprintf(message, CONFIG_ERROR_BYTES, "%.190s: %s", path, fault);
	return -error;
}
