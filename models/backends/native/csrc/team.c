/* Threads that share the parts of one call. A part computes the same numbers on any thread, so a team changes no result.

   Helpers spin during a call, because a step of one row has some fifty tasks of ten microseconds each, and some hundred
   microseconds after it, because the next step follows; then they sleep. A thread that spins for longer lets other
   processes have its core. Nothing waits for a helper that the system has not woken yet: the caller takes its parts. One
   call at a time has the helpers; any other runs alone. */
#define _GNU_SOURCE
#include "native.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { SPINS = 4000, LINE = 64 };

/* open: the number of parts in its upper half, and how many of them are taken in its lower half. Both change at once, so
   a thread that takes a part has one of the current task, and the task lasts until that part has ended. */
static struct {
    _Atomic uint64_t open;
    char apart[LINE - sizeof(uint64_t)];
    _Atomic int64_t ended, in_call;
    Task *task;
    const void *job;
    int64_t helpers;
    pthread_mutex_t lock; /* of helpers, and of the change of in_call */
    pthread_cond_t begun;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .begun = PTHREAD_COND_INITIALIZER};

static int is_taken(uint64_t open) { return (uint32_t)open >= open >> 32; }

static int take_part(int64_t thread) {
    if (is_taken(atomic_load_explicit(&pool.open, memory_order_relaxed))) return 0;
    uint64_t open = atomic_fetch_add_explicit(&pool.open, 1, memory_order_acquire);
    if (is_taken(open)) return 0;
    pool.task(pool.job, (uint32_t)open, thread);
    atomic_fetch_add_explicit(&pool.ended, 1, memory_order_release);
    return 1;
}

static void spin(int64_t *spins) {
    if (++*spins > SPINS) sched_yield();
    else pause_thread();
}

static void *help(void *number) {
    int64_t thread = (intptr_t)number, spins = 0;
    for (;;) {
        if (take_part(thread)) {
            spins = 0;
        } else if (spins < SPINS || atomic_load_explicit(&pool.in_call, memory_order_relaxed)) {
            spin(&spins);
        } else {
            pthread_mutex_lock(&pool.lock);
            while (!atomic_load_explicit(&pool.in_call, memory_order_relaxed)) pthread_cond_wait(&pool.begun, &pool.lock);
            pthread_mutex_unlock(&pool.lock);
            spins = 0;
        }
    }
    return NULL;
}

/* A forked child has none of its parent's threads. */
static void forget_helpers(void) {
    pool.helpers = 0;
    atomic_store(&pool.in_call, 0), atomic_store(&pool.open, 0);
    pthread_mutex_init(&pool.lock, NULL), pthread_cond_init(&pool.begun, NULL);
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_helpers); }

/* The threads of this call, the caller included: `threads`, or fewer where the system has no more. Ends with
   `end_team`, if there are more than one. */
int64_t begin_team(int64_t threads) {
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    if (threads < 2) return 1;
    pthread_once(&watched, watch_forks);
    pthread_mutex_lock(&pool.lock);
    int64_t others = pool.in_call ? 0 : (threads < MOST_THREADS ? threads : MOST_THREADS) - 1;
    for (pthread_t helper; pool.helpers < others; pool.helpers++) {
        if (pthread_create(&helper, NULL, help, (void *)(intptr_t)(pool.helpers + 1))) break;
        pthread_detach(helper);
    }
    if (others > pool.helpers) others = pool.helpers;
    if (others) {
        atomic_store(&pool.in_call, 1);
        pthread_cond_broadcast(&pool.begun);
    }
    pthread_mutex_unlock(&pool.lock);
    return others + 1;
}

void end_team(int64_t threads) {
    if (threads > 1) atomic_store(&pool.in_call, 0);
}

/* All parts of the task, which have ended when it returns. threads: of `begin_team`. */
void share(int64_t threads, Task *task, const void *job, int64_t parts) {
    if (threads < 2 || parts < 2) {
        for (int64_t part = 0; part < parts; part++) task(job, part, 0);
        return;
    }
    pool.task = task, pool.job = job;
    atomic_store_explicit(&pool.ended, 0, memory_order_relaxed);
    atomic_store_explicit(&pool.open, (uint64_t)parts << 32, memory_order_release);
    while (take_part(0)) {}
    for (int64_t spins = 0; atomic_load_explicit(&pool.ended, memory_order_acquire) < parts;) spin(&spins);
}
