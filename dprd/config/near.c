// SPDX-License-Identifier: GPL-2.0-or-later
/* config/near.c - finds the word that was probably meant by a misspelt one. */
#include "dprd/config/reading.h"

#include <ctype.h>

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned least = a < b ? a : b;

	return least < c ? least : c;
}

/* Levenshtein distance, letter case ignored; CONFIG_NEAR_LETTERS_MAX for words that are longer than any key. */
unsigned config_distance(const char *a, const char *b)
{
	unsigned row[CONFIG_NEAR_LETTERS_MAX + 1];
	size_t length_a = strlen(a), length_b = strlen(b);

	if (length_a > CONFIG_NEAR_LETTERS_MAX || length_b > CONFIG_NEAR_LETTERS_MAX)
		return CONFIG_NEAR_LETTERS_MAX;
	for (unsigned j = 0; j <= length_b; j++)
		row[j] = j;
	for (unsigned i = 1; i <= length_a; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= length_b; j++) {
			bool same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
			unsigned above = row[j];

			row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (same ? 0 : 1));
			diagonal = above;
		}
	}
	return row[length_b];
}

/* A slip of the finger changes at most 3 letters, and at most a third of the word. */
bool config_is_near(unsigned letters, const char *word)
{
	return letters <= 3 && letters * 3 <= strlen(word) + 1;
}

const char *config_nearest(const char *const *list, const char *text)
{
	const char *best = NULL;
	unsigned least = CONFIG_NEAR_LETTERS_MAX;

	for (; *list; list++) {
		unsigned letters = config_distance(text, *list);

		if (letters < least && config_is_near(letters, *list)) {
			least = letters;
			best = *list;
		}
	}
	return best;
}
