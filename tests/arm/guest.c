/* Calls functions of libraries for another process: `guest FILE BASE`, where FILE is the number of the open file that is
   the heap of that process, and BASE its address there, in hexadecimal. Requests come on standard input, and what the
   functions return goes to standard output. All arguments are integers or pointers, of which AArch64 takes the first
   eight in registers and every other one in eight bytes of the stack; a function does not see what it has no use for. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OPEN, SYMBOL, CALL };
enum { MOST = 24 };
static const uint64_t CHUNK = 1 << 26;

typedef struct {
    uint64_t used; /* bytes of the heap that pointers may lie in */
    uint64_t kind, function;
    uint64_t arguments[MOST];
} Request;

typedef uint64_t Function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                          uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                          uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static int transfer(ssize_t (*how)(int, void *, size_t), int file, void *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t now = how(file, (char *)bytes + done, size - done);
        if (now <= 0) return 0;
        done += (size_t)now;
    }
    return 1;
}

static ssize_t put(int file, void *bytes, size_t size) { return write(file, bytes, size); }

static uint64_t answer(const Request *r) {
    const uint64_t *a = r->arguments;
    switch (r->kind) {
    case OPEN: {
        void *library = dlopen((const char *)a[0], RTLD_NOW);
        if (!library) fprintf(stderr, "%s\n", dlerror());
        return (uint64_t)library;
    }
    case SYMBOL: return (uint64_t)dlsym(a[0] ? (void *)a[0] : RTLD_DEFAULT, (const char *)a[1]);
    default:
        return ((Function *)r->function)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
                                         a[12], a[13], a[14], a[15], a[16], a[17], a[18], a[19], a[20], a[21], a[22],
                                         a[23]);
    }
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    int heap = atoi(arguments[1]);
    char *base = (char *)strtoull(arguments[2], NULL, 16);
    uint64_t mapped = 0;
    for (Request request; transfer(read, 0, &request, sizeof(request));) {
        for (; mapped < request.used; mapped += CHUNK)
            if (mmap(base + mapped, CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, heap,
                     (off_t)mapped) != base + mapped)
                return perror("mmap"), 3;
        uint64_t result = answer(&request);
        if (!transfer(put, 1, &result, sizeof(result))) return 4;
    }
    return 0;
}
