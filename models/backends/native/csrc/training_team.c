/* Threads that share the tasks of one call. They live as long as the call: what a pool would save is some twenty
   microseconds, and what it would cost is a state that forks, signals and other libraries' threads must be right with. */
#define _GNU_SOURCE
#include "training.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MOST_THREADS = 64, MOST_PHASES = 8, SPINS = 2000 };

typedef struct {
    const Phase *phases;
    const void *job;
    float *scratch;
    int64_t count, each;
    _Atomic int64_t members, seated, next[MOST_PHASES], ended[MOST_PHASES];
} Team;

static void wait_for(_Atomic int64_t *count, const Team *team) {
    for (int spins = 0;; spins++) {
        int64_t members = atomic_load_explicit(&team->members, memory_order_acquire);
        if (members && atomic_load_explicit(count, memory_order_acquire) >= members) return;
        if (spins > SPINS) sched_yield();
    }
}

static void *take_part(void *argument) {
    Team *team = argument;
    float *scratch = team->scratch + atomic_fetch_add(&team->seated, 1) * team->each;
    for (int64_t p = 0; p < team->count; p++) {
        for (int64_t t; (t = atomic_fetch_add(&team->next[p], 1)) < team->phases[p].tasks;)
            team->phases[p].work(team->job, t, scratch);
        atomic_fetch_add_explicit(&team->ended[p], 1, memory_order_acq_rel);
        if (p + 1 < team->count) wait_for(&team->ended[p], team);
    }
    return NULL;
}

int64_t run_phases(int64_t threads, const Phase *phases, int64_t count, const void *job, int64_t scratch) {
    pthread_t others[MOST_THREADS];
    threads = larger(1, smaller(threads, MOST_THREADS));
    Team team = {.phases = phases, .job = job, .count = count, .each = whole(scratch + LINE, LINE)};
    team.scratch = aligned_alloc(LINE, (size_t)(threads * team.each) * sizeof(float));
    if (!team.scratch) return NO_MEMORY;
    int64_t started = 0;
    while (started < threads - 1 && !pthread_create(&others[started], NULL, take_part, &team)) started++;
    atomic_store_explicit(&team.members, started + 1, memory_order_release); /* fewer, where the system has no more */
    take_part(&team);
    while (started > 0) pthread_join(others[--started], NULL);
    free(team.scratch);
    return DONE;
}
