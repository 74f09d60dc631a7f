/* malloc in memory that a second process can map at the same address, so that pointers mean the same in both. Preloaded
   into Python; blocks have sizes of powers of two and are never given back to the system. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BASE ((char *)0x200000000000)
#define SIZE ((size_t)1 << 36) /* of addresses; memory is taken as it is written to */
enum { SMALLEST = 32, CLASSES = 36 };

typedef struct { /* before what malloc returns */
    char *block;
    uint64_t class;
} Header;

static atomic_flag busy = ATOMIC_FLAG_INIT;
static char *unused[CLASSES]; /* blocks that were freed: each begins with the address of the next */
static size_t used;
static int file = -1;

int shared_heap_file(void) { return file; }
uint64_t shared_heap_used(void) { return used; }
uint64_t shared_heap_base(void) { return (uint64_t)BASE; }

static void begin(void) {
    file = memfd_create("heap", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)SIZE) ||
        mmap(BASE, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file, 0) != BASE)
        abort();
}

/* The programs that Python starts would share the heap. */
__attribute__((constructor)) static void forget_preload(void) { unsetenv("LD_PRELOAD"); }

static void *allocate(size_t size, size_t alignment) {
    size_t needed = size + sizeof(Header) + (alignment > 16 ? alignment : 0);
    uint64_t class = 0;
    while (class < CLASSES && ((size_t)SMALLEST << class) < needed) class++;
    while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) sched_yield();
    if (file < 0) begin();
    char *block = class < CLASSES ? unused[class] : NULL;
    if (block) {
        memcpy(&unused[class], block, sizeof(char *));
    } else if (class < CLASSES && ((size_t)SMALLEST << class) <= SIZE - used) {
        block = BASE + used;
        used += (size_t)SMALLEST << class;
    }
    atomic_flag_clear_explicit(&busy, memory_order_release);
    if (!block) {
        errno = ENOMEM;
        return NULL;
    }
    uintptr_t at = (uintptr_t)block + sizeof(Header);
    if (alignment > 16) at = (at + alignment - 1) & ~(uintptr_t)(alignment - 1);
    ((Header *)at)[-1] = (Header){block, class};
    return (void *)at;
}

static size_t room(const void *at) {
    const Header *header = (const Header *)at - 1;
    return (size_t)(header->block + ((size_t)SMALLEST << header->class) - (const char *)at);
}

void *malloc(size_t size) { return allocate(size, 16); }

void free(void *at) {
    if ((char *)at < BASE || (char *)at >= BASE + SIZE) return; /* what the loader had before malloc */
    Header header = ((Header *)at)[-1];
    while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) sched_yield();
    memcpy(header.block, &unused[header.class], sizeof(char *));
    unused[header.class] = header.block;
    atomic_flag_clear_explicit(&busy, memory_order_release);
}

void *calloc(size_t count, size_t size) {
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) return NULL;
    void *at = malloc(total);
    return at ? memset(at, 0, total) : NULL;
}

void *realloc(void *at, size_t size) {
    if (!at) return malloc(size);
    if (size <= room(at)) return at;
    void *moved = malloc(size);
    if (!moved) return NULL;
    memcpy(moved, at, room(at));
    free(at);
    return moved;
}

void *memalign(size_t alignment, size_t size) { return allocate(size, alignment); }
void *aligned_alloc(size_t alignment, size_t size) { return allocate(size, alignment); }
void *valloc(size_t size) { return allocate(size, 4096); }
void *pvalloc(size_t size) { return allocate((size + 4095) & ~(size_t)4095, 4096); }
size_t malloc_usable_size(void *at) { return at ? room(at) : 0; }

int posix_memalign(void **at, size_t alignment, size_t size) {
    void *allocated = allocate(size, alignment);
    if (!allocated) return ENOMEM;
    *at = allocated;
    return 0;
}
