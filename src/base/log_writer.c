#include "base/log_writer.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    QUEUE_BYTES = 256 * 1024,    /* about two thousand lines */
    KEPT_FREE_BYTES = 64 * 1024, /* for lines that matter */
};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t filled;  /* for the thread: there is a line, or it must end */
    pthread_cond_t drained; /* for log_writer_flush() */
    pthread_t thread;
    log_writer_notice *notice;
    int fd;
    bool is_running;
    bool must_end;
    bool is_writing; /* the thread holds a line outside of the queue */
    bool has_ended;
    uint64_t n_dropped;
    size_t first; /* where the oldest line begins */
    size_t used;
    char queue[QUEUE_BYTES]; /* a ring: the size of a line, then the line */
} writer = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void ring_write(const void *bytes, size_t size) {
    size_t at = (writer.first + writer.used) % QUEUE_BYTES;
    size_t until_end = QUEUE_BYTES - at;
    size_t part = size < until_end ? size : until_end;
    memcpy(writer.queue + at, bytes, part);
    memcpy(writer.queue, (const char *)bytes + part, size - part);
    writer.used += size;
}

static void ring_read(void *out_bytes, size_t size) {
    size_t until_end = QUEUE_BYTES - writer.first;
    size_t part = size < until_end ? size : until_end;
    memcpy(out_bytes, writer.queue + writer.first, part);
    memcpy((char *)out_bytes + part, writer.queue, size - part);
    writer.first = (writer.first + size) % QUEUE_BYTES;
    writer.used -= size;
}

/* One write a line, so that lines of several processes do not mix. */
static void write_line(int fd, const char *line, size_t size) {
    size_t written = 0;
    while (written < size) {
        ssize_t n = write(fd, line + written, size - written);
        if (n > 0) {
            written += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            return; /* there is nobody left to tell */
        }
    }
}

/* The next line, or what is to be said of those dropped; 0: nothing is waiting. */
static size_t take_line(char line[LOG_WRITER_LINE_BYTES_MAX]) {
    if (writer.used > 0) {
        uint32_t size = 0;
        ring_read(&size, sizeof size);
        ring_read(line, size);
        return size;
    }
    if (writer.n_dropped > 0) {
        uint64_t n_dropped = writer.n_dropped;
        writer.n_dropped = 0;
        return writer.notice(n_dropped, line);
    }
    return 0;
}

static void *run(void *unused) {
    (void)unused;
    char line[LOG_WRITER_LINE_BYTES_MAX];
    pthread_mutex_lock(&writer.mutex);
    for (;;) {
        size_t size = take_line(line);
        if (size > 0) {
            writer.is_writing = true;
            int fd = writer.fd;
            pthread_mutex_unlock(&writer.mutex);
            write_line(fd, line, size);
            pthread_mutex_lock(&writer.mutex);
            writer.is_writing = false;
            continue;
        }
        pthread_cond_broadcast(&writer.drained);
        if (writer.must_end) {
            break;
        }
        pthread_cond_wait(&writer.filled, &writer.mutex);
    }
    writer.has_ended = true;
    pthread_cond_broadcast(&writer.drained);
    pthread_mutex_unlock(&writer.mutex);
    return NULL;
}

static bool start_thread(void) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    /* Signals are for the loop's thread. */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = pthread_create(&writer.thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result == 0;
}

bool log_writer_start(int fd, log_writer_notice *notice) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_lock(&writer.mutex);
    assert(!writer.is_running);
    pthread_cond_init(&writer.filled, NULL);
    pthread_cond_init(&writer.drained, &attributes);
    writer.fd = fd;
    writer.notice = notice;
    writer.must_end = false;
    writer.has_ended = false;
    writer.is_running = start_thread();
    bool is_running = writer.is_running;
    pthread_mutex_unlock(&writer.mutex);
    pthread_condattr_destroy(&attributes);
    return is_running;
}

bool log_writer_put(const char *line, size_t size, bool is_minor) {
    assert(size <= LOG_WRITER_LINE_BYTES_MAX);
    pthread_mutex_lock(&writer.mutex);
    bool is_running = writer.is_running;
    if (is_running) {
        uint32_t prefix = (uint32_t)size;
        size_t limit = is_minor ? QUEUE_BYTES - KEPT_FREE_BYTES : QUEUE_BYTES;
        if (writer.used + sizeof prefix + size > limit) {
            writer.n_dropped++;
        } else {
            ring_write(&prefix, sizeof prefix);
            ring_write(line, size);
            pthread_cond_signal(&writer.filled);
        }
    }
    pthread_mutex_unlock(&writer.mutex);
    return is_running;
}

static bool is_drained(void) {
    return writer.has_ended || (writer.used == 0 && writer.n_dropped == 0 && !writer.is_writing);
}

/* Under the mutex. False: the time is over. */
static bool wait_drained(unsigned timeout_ms, bool until_end) {
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += timeout_ms / 1000;
    deadline.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000;
    }
    while (until_end ? !writer.has_ended : !is_drained()) {
        if (pthread_cond_timedwait(&writer.drained, &writer.mutex, &deadline) == ETIMEDOUT) {
            return false;
        }
    }
    return true;
}

void log_writer_flush(unsigned timeout_ms) {
    pthread_mutex_lock(&writer.mutex);
    if (writer.is_running) {
        (void)wait_drained(timeout_ms, false);
    }
    pthread_mutex_unlock(&writer.mutex);
}

void log_writer_stop(unsigned timeout_ms) {
    pthread_mutex_lock(&writer.mutex);
    bool has_ended = false;
    if (writer.is_running) {
        writer.must_end = true;
        pthread_cond_signal(&writer.filled);
        has_ended = wait_drained(timeout_ms, true);
        writer.is_running = false;
    }
    pthread_mutex_unlock(&writer.mutex);
    if (has_ended) {
        pthread_join(writer.thread, NULL);
    }
}
