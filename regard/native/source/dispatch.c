// The entry points of the library: instruction sets of this processor, threads, and calls of the kernels of one set.
#define _DEFAULT_SOURCE  // for syscall
#include "native.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_THREADS 64
#define SPINS 2000

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif
extern const Kernels regard_kernels_amx, regard_kernels_vnni, regard_kernels_avx2;
// Returns whether the processor has all of these bits of leaf 7 (EBX, ECX) and the system saves these registers (XCR0).
static int has(unsigned ebx, unsigned ecx, unsigned registers) {
    unsigned a, b, c, d, low, high;
    const unsigned basic = 1u << 12 | 1u << 27 | 1u << 28;  // FMA, OSXSAVE, AVX
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & basic) != basic) return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & registers) != registers || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    return (b & ebx) == ebx && (c & ecx) == ecx;
}
static int has_avx2(void) { return has(1u << 5, 0, 0x6); }
static int has_vnni(void) {  // AVX2, AVX-512 F, DQ, BW, VL, and VNNI
    return has(1u << 5 | 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31, 1u << 11, 0xe6);
}
// VNNI and 8-bit tiles, for which a process must request permission from Linux once.
static int has_amx(void) {
#if defined(__linux__)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    if (!has_vnni() || !has(0, 0, 0x60000) || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    if (!(d & 1u << 24) || !(d & 1u << 25)) return 0;
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return 0;
#endif
}
#endif
#if defined(__aarch64__)
extern const Kernels regard_kernels_neon_dot;
#if defined(__APPLE__)
static int has_dot(void) { return 1; }  // every Apple processor that runs macOS has it
#else
#include <sys/auxv.h>
#define DOT_PRODUCTS (1ul << 20)  // HWCAP_ASIMDDP
static int has_dot(void) { return (getauxval(AT_HWCAP) & DOT_PRODUCTS) != 0; }
#endif
#endif
extern const Kernels regard_kernels_plain;
static int always(void) { return 1; }

static const struct {
    const char *name;
    const Kernels *kernels;
    int (*found)(void);
} sets[] = {
#if defined(__x86_64__)
    {"amx", &regard_kernels_amx, has_amx},
    {"avx512-vnni", &regard_kernels_vnni, has_vnni},
    {"avx2", &regard_kernels_avx2, has_avx2},
#endif
#if defined(__aarch64__)
    {"neon-dot", &regard_kernels_neon_dot, has_dot},
#endif
    {"plain", &regard_kernels_plain, always},
};
#define SETS (sizeof sets / sizeof *sets)

// The result is cached: on a virtual machine, CPUID takes the time of a small product.
static int usable(unsigned set) {
    enum { UNKNOWN, NO, YES };
    static atomic_int known[SETS];
    int found = atomic_load_explicit(known + set, memory_order_relaxed);
    if (found == UNKNOWN) atomic_store_explicit(known + set, found = sets[set].found() ? YES : NO, memory_order_relaxed);
    return found == YES;
}

int regard_abi(void) { return ABI; }
// Returns the name of a set that this processor supports, the fastest first; NULL after the last.
const char *regard_set(int number) {
    for (unsigned i = 0; i < SETS; i++)
        if (usable(i) && number-- == 0) return sets[i].name;
    return 0;
}
static const Kernels *kernels_of(const char *name) {
    for (unsigned i = 0; i < SETS; i++)
        if (!strcmp(sets[i].name, name) && usable(i)) return sets[i].kernels;
    return 0;
}

struct Pool {
    int threads;
    pid_t process;
    pthread_t id[MOST_THREADS];
    atomic_int turn, waiting, round, stopped, asleep;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const Kernels *kernels;
    const Operation *program;
    int64_t count;
    const Batch *batch;
};

// Waits until the number changes: spins for some microseconds, then sleeps.
static void wait_while(Pool *p, atomic_int *number, int old) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(number, memory_order_acquire) != old) return;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->asleep, 1);
    while (atomic_load(number) == old) pthread_cond_wait(&p->changed, &p->lock);
    atomic_fetch_sub(&p->asleep, 1);
    pthread_mutex_unlock(&p->lock);
}
static void advance(Pool *p, atomic_int *number) {
    atomic_fetch_add(number, 1);
    if (!atomic_load(&p->asleep)) return;  // a thread that goes to sleep after this check sees the new number
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

void regard_barrier(Pool *p) {
    if (!p || p->threads == 1) return;
    int turn = atomic_load(&p->turn);
    if (atomic_fetch_add(&p->waiting, 1) == p->threads - 1) {
        atomic_store(&p->waiting, 0);
        advance(p, &p->turn);
    } else {
        wait_while(p, &p->turn, turn);
    }
}

typedef struct {
    Pool *pool;
    int thread;
} Place;

static void *serve(void *given) {
    Place own = *(Place *)given;
    free(given);
    Pool *p = own.pool;
    for (int seen = 0;; seen++) {
        wait_while(p, &p->round, seen);
        if (atomic_load(&p->stopped)) return 0;
        p->kernels->run(p->program, p->count, p->batch, own.thread, p->threads, p);
        regard_barrier(p);
    }
}

void regard_free_pool(Pool *p) {
    if (p->process == getpid()) {  // a forked child process does not have these threads
        atomic_store(&p->stopped, 1);
        advance(p, &p->round);
        for (int t = 1; t < p->threads; t++) pthread_join(p->id[t], 0);
    }
    free(p);
}

// Returns threads that wait for work; NULL if they cannot be created.
Pool *regard_new_pool(int threads) {
    Pool *p = calloc(1, sizeof *p);
    if (!p || threads < 1 || threads > MOST_THREADS) {
        free(p);
        return 0;
    }
    p->process = getpid();
    pthread_mutex_init(&p->lock, 0);
    pthread_cond_init(&p->changed, 0);
    for (p->threads = 1; p->threads < threads; p->threads++) {
        Place *place = malloc(sizeof *place);
        if (!place) break;
        *place = (Place){p, p->threads};
        if (pthread_create(p->id + p->threads, 0, serve, place)) {
            free(place);
            break;
        }
    }
    if (p->threads == threads) return p;
    regard_free_pool(p);
    return 0;
}

// Returns 0 if this processor does not support the set or the pool belongs to another process, else 1.
int regard_run(const char *set, const Operation *program, int64_t count, const Batch *batch, Pool *pool) {
    const Kernels *kernels = kernels_of(set);
    if (!kernels || (pool && pool->process != getpid())) return 0;
    if (!pool || pool->threads == 1) {
        kernels->run(program, count, batch, 0, 1, 0);
        return 1;
    }
    pool->kernels = kernels, pool->program = program, pool->count = count, pool->batch = batch;
    advance(pool, &pool->round);
    kernels->run(program, count, batch, 0, pool->threads, pool);
    regard_barrier(pool);
    return 1;
}

// The shares of a pass: each thread takes the next share until all are done.
typedef struct {
    const Kernels *kernels;
    const Pass *pass;
    int shares;
    atomic_int taken;
} Shares;

static void take_shares(void *given) {
    Shares *all = given;
    for (int share; (share = atomic_fetch_add(&all->taken, 1)) < all->shares;)
        all->kernels->pass(all->pass, share, all->shares);
}

// `team` runs work in `threads` threads, including the caller's, and waits for all. It is GOMP_parallel of torch's OpenMP
// library. Separate threads would compete for the processor with OpenMP's threads, which spin while they wait.
int regard_pass(const char *set, const Pass *pass, int threads, Team *team) {
    Shares all = {kernels_of(set), pass, threads, 0};
    if (!all.kernels) return 0;
    if (threads == 1)
        take_shares(&all);
    else
        team(take_shares, &all, (unsigned)threads, 0);
    return 1;
}

int regard_pack(const char *set, const float *w, int64_t outputs, int64_t inputs, int64_t filled, int64_t format, void *to,
                float *scale) {
    const Kernels *kernels = kernels_of(set);
    if (kernels) kernels->pack(w, outputs, inputs, filled, format, to, scale);
    return kernels != 0;
}
// Returns the size of a structure, which Python compares with its own declaration.
int64_t regard_size(int what) {
    return what == 0 ? sizeof(Matrix) : what == 1 ? sizeof(Operation) : what == 2 ? sizeof(Table) : what == 3 ? sizeof(Batch) : what == 4 ? sizeof(Beam)
         : what == 5 ? sizeof(Pass) : sizeof(ShortAttention); }

