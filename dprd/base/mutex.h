/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mutex.h - a mutex that knows in debug builds (make DEBUG=1) which thread holds it.
 *
 * A function that needs the mutex says so by mutex_assert_held(). In a debug build a thread that calls it without the
 * mutex, or locks the mutex twice, ends the process.
 */
#ifndef DPRD_MUTEX_H
#define DPRD_MUTEX_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

struct mutex {
	pthread_mutex_t mutex;
#ifdef DPRD_DEBUG
	pthread_t owner; /* valid while held is set; a thread finds its own number here only while it holds the mutex */
	bool held;
#endif
};

#define MUTEX_INITIALIZER                          \
	{                                          \
		.mutex = PTHREAD_MUTEX_INITIALIZER \
	}

#ifdef DPRD_DEBUG
static inline bool mutex_is_mine(const struct mutex *m)
{
	return __atomic_load_n(&m->held, __ATOMIC_ACQUIRE) &&
	       pthread_equal(__atomic_load_n(&m->owner, __ATOMIC_RELAXED), pthread_self());
}

/* Macros, so that the message names the caller. */
#define mutex_assert_held(m) assert(mutex_is_mine(m))
#define mutex_assert_free(m) assert(!mutex_is_mine(m))
#else
#define mutex_assert_held(m) ((void)(m))
#define mutex_assert_free(m) ((void)(m))
#endif

static inline void mutex_lock(struct mutex *m)
{
	mutex_assert_free(m);
	pthread_mutex_lock(&m->mutex);
#ifdef DPRD_DEBUG
	__atomic_store_n(&m->owner, pthread_self(), __ATOMIC_RELAXED);
	__atomic_store_n(&m->held, true, __ATOMIC_RELEASE);
#endif
}

static inline void mutex_unlock(struct mutex *m)
{
	mutex_assert_held(m);
#ifdef DPRD_DEBUG
	__atomic_store_n(&m->held, false, __ATOMIC_RELEASE);
#endif
	pthread_mutex_unlock(&m->mutex);
}

#endif
