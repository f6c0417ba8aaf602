#include "replication/raft_calls.h"

#include "base/crc32_msb.h"
#include "replication/raft_writer.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <raft/uv.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    ZEROS_SIZE = 256 * 1024,
    DIRECT_ALIGNMENT = 4096, /* what direct I/O wants buffers aligned to */
    ENDER_STACK_SIZE = 64 * 1024
};

void raft_calls_install(struct raft_io *io) {
    raft_uv_set_segment_size(io, RAFT_CALLS_SEGMENT_SIZE);
}

/* --- A segment that is written already. --- */

/* Never written to, so it costs no memory: every page is the kernel's own page of zeros. */
static const uint8_t zeros[ZEROS_SIZE] __attribute__((aligned(DIRECT_ALIGNMENT)));

static int write_zeros(int fd, off_t offset, off_t size) {
    for (off_t end = offset + size; offset < end;) {
        size_t part = end - offset < ZEROS_SIZE ? (size_t)(end - offset) : ZEROS_SIZE;
        ssize_t written = pwrite(fd, zeros, part, offset);
        if (written < 0 && errno != EINTR) {
            return errno;
        }
        offset += written > 0 ? written : 0;
    }
    return fdatasync(fd) == 0 ? 0 : errno;
}

static int allocate_segment(int fd, off_t offset, off_t size) {
    int error = posix_fallocate64(fd, offset, size);
    if (error != 0) {
        return error;
    }
    /* Past the page cache: raft_uv writes there later, and what is cached would be in its way. */
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) {
        return 0; /* a file system that cannot: nothing is gained there either */
    }
    error = write_zeros(fd, offset, size);
    if (fcntl(fd, F_SETFL, flags) != 0 && error == 0) {
        error = errno;
    }
    return error == EINVAL ? 0 : error;
}

/* Written by workers, read by the loop. */
static int segment_error;

int raft_calls_allocate(int fd, off_t offset, off_t size) {
    if (size != RAFT_CALLS_SEGMENT_SIZE) {
        return posix_fallocate64(fd, offset, size);
    }
    int error = allocate_segment(fd, offset, size);
    __atomic_store_n(&segment_error, error, __ATOMIC_RELAXED);
    return error;
}

int raft_calls_segment_error(void) {
    return __atomic_load_n(&segment_error, __ATOMIC_RELAXED);
}

/* --- A context that is ended elsewhere. --- */

typedef long system_call(long number, long a, long b, long c, long d, long e, long f);

static system_call *library_call(void) {
    /* Several threads may look it up at once; they find the same. */
    static system_call *found;
    system_call *call = __atomic_load_n(&found, __ATOMIC_RELAXED);
    if (call == NULL) {
        call = (system_call *)dlsym(RTLD_NEXT, "syscall");
        if (call == NULL) {
            abort();
        }
        __atomic_store_n(&found, call, __ATOMIC_RELAXED);
    }
    return call;
}

static void *end_context(void *context) {
    library_call()(SYS_io_destroy, (long)context, 0, 0, 0, 0, 0);
    return NULL;
}

/* False: no thread could be had. */
static bool end_context_elsewhere(long context) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, ENDER_STACK_SIZE);
    /* Signals are for the loop's thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_create(&thread, &attributes, end_context, (void *)context) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return is_started;
}

/* --- Writes. --- */

static bool is_write_of_log(long number_of_requests, struct iocb *const *requests) {
    return number_of_requests == 1 && raft_writer_takes(requests[0]);
}

static long submit(long context, struct iocb *const *requests) {
    if (raft_writer_submit((aio_context_t)context, requests[0])) {
        return 1;
    }
    /* raft_uv then has one of its own workers write. */
    errno = EAGAIN;
    return -1;
}

long raft_calls_syscall(long number, long a, long b, long c, long d, long e, long f) {
    if (number == SYS_io_submit && is_write_of_log(b, (struct iocb *const *)c)) {
        return submit(a, (struct iocb *const *)c);
    }
    if (number == SYS_io_getevents && raft_writer_finished((aio_context_t)a, (void *)d)) {
        return 1;
    }
    if (number == SYS_io_destroy) {
        raft_writer_end((aio_context_t)a);
        if (end_context_elsewhere(a)) {
            return 0;
        }
    }
    return library_call()(number, a, b, c, d, e, f);
}

/* --- The checksum of what raft_uv writes. --- */

/* It is computed between two writes, while the disk has nothing to do: byte by byte as libraft
 * does, that took a sixth of all instructions of a put. */
unsigned raft_calls_checksum(const void *data, size_t size, unsigned from) {
    return crc32_msb(from, data, size);
}
