// SPDX-License-Identifier: GPL-2.0-or-later
/* random.c - the generator, the service-time laws, the alias method. */
#include "dprd/sim/random.h"

#include <math.h>

enum { BISECTIONS = 200, NORMAL_UNIFORMS = 2 };

static const double two_pi = 6.283185307179586;

void random_start(struct random_stream *stream, uint64_t seed, uint64_t purpose)
{
	uint64_t from = policy_mix(policy_mix(seed) ^ policy_mix(~purpose));

	for (unsigned i = 0; i < 4; i++)
		stream->state[i] = policy_mix(from + i);
}

static uint64_t rotate_left(uint64_t value, unsigned bits)
{
	return value << bits | value >> (64 - bits);
}

uint64_t random_bits(struct random_stream *stream)
{
	uint64_t *s = stream->state, result = rotate_left(s[1] * 5, 7) * 9, shifted = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= shifted;
	s[3] = rotate_left(s[3], 45);
	return result;
}

double random_uniform(struct random_stream *stream)
{
	return policy_uniform(random_bits(stream)) + 0x1p-54;
}

double random_exponential(struct random_stream *stream)
{
	return -log(random_uniform(stream));
}

/* The mean of a Pareto law that begins at least and is cut off at most. */
static double pareto_mean(double least, double alpha, double most)
{
	double ratio = least / most, cut = 1 - pow(ratio, alpha);

	if (fabs(alpha - 1) < 1e-9)
		return least * log(1 / ratio) / cut;
	return least * alpha / (alpha - 1) * (1 - pow(ratio, alpha - 1)) / cut;
}

void law_start(struct law *law, const struct sim_law *from)
{
	double low = 0x1p-60, high = 1;

	*law = (struct law) { .law = *from };
	if (from->kind != SIM_LAW_PARETO)
		return;
	/* The mean grows with the lowest value and is above it: for some lowest value between 0 and 1 it is 1. */
	for (unsigned i = 0; i < BISECTIONS; i++) {
		double middle = (low + high) / 2;

		if (pareto_mean(middle, from->shape, from->most) < 1)
			low = middle;
		else
			high = middle;
	}
	law->least = high;
	law->below_most = 1 - pow(high / from->most, from->shape);
}

double law_draw(const struct law *law, struct random_stream *stream)
{
	double u[NORMAL_UNIFORMS];

	switch (law->law.kind) {
	case SIM_LAW_DET:
		return 1;
	case SIM_LAW_PARETO:
		return law->least * pow(1 - random_uniform(stream) * law->below_most, -1 / law->law.shape);
	case SIM_LAW_LOGNORMAL:
		/* Box and Muller, using one of the two results: a connection always takes two numbers of the stream. */
		u[0] = random_uniform(stream);
		u[1] = random_uniform(stream);
		return exp(law->law.shape * sqrt(-2 * log(u[0])) * cos(two_pi * u[1]) -
			   law->law.shape * law->law.shape / 2);
	case SIM_LAW_EXP:
		break;
	}
	return random_exponential(stream);
}

void alias_start(struct alias *alias, const double *share, unsigned count)
{
	uint16_t small[SIM_NODES_MAX], large[SIM_NODES_MAX];
	unsigned smalls = 0, larges = 0;

	alias->count = count;
	for (unsigned i = 0; i < count; i++) {
		alias->keep[i] = share[i] * count;
		alias->other[i] = (uint16_t)i;
		if (alias->keep[i] < 1)
			small[smalls++] = (uint16_t)i;
		else
			large[larges++] = (uint16_t)i;
	}
	while (smalls && larges) {
		uint16_t poor = small[--smalls], rich = large[larges - 1];

		alias->other[poor] = rich;
		alias->keep[rich] -= 1 - alias->keep[poor];
		if (alias->keep[rich] < 1) {
			larges--;
			small[smalls++] = rich;
		}
	}
	/* Columns that are left over because of rounding keep all of their own share, but a share of 0 stays 0. */
	while (larges)
		alias->keep[large[--larges]] = 1;
	while (smalls) {
		uint16_t left = small[--smalls];

		alias->keep[left] = share[left] > 0 ? 1 : 0;
	}
}

unsigned alias_draw(const struct alias *alias, struct random_stream *stream)
{
	double point = random_uniform(stream) * alias->count;
	unsigned column = (unsigned)point;

	if (column >= alias->count)
		column = alias->count - 1;
	return point - column < alias->keep[column] ? column : alias->other[column];
}
