#include "replication/raft_writer.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LOOK_OUT_US = 250, IN_VAIN_MAX = 6 };

struct job {
    struct job *next;
    aio_context_t context;
    const struct iocb *iocb;
    int told_through;      /* our own, as the caller's may be closed before the write ends */
    struct io_event event; /* once it is finished */
};

/* One for the process: raft_uv has one write on its way at a time. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t is_asked;
    pthread_cond_t is_finished;
    struct job *asked;   /* the oldest first; looked at without the mutex */
    struct job *running; /* NULL: none */
    struct job *finished;
    bool is_started;
} writer = {.mutex = PTHREAD_MUTEX_INITIALIZER,
            .is_asked = PTHREAD_COND_INITIALIZER,
            .is_finished = PTHREAD_COND_INITIALIZER};

static void append(struct job **list, struct job *job) {
    while (*list != NULL) {
        list = &(*list)->next;
    }
    job->next = NULL;
    __atomic_store_n(list, job, __ATOMIC_RELAXED);
}

/* Waking a thread takes as long as a quarter of a write, and the next write often follows on the
 * heels of the last: the thread looks out for it about as long as a write takes, giving way to
 * anybody else who wants the processor. In vain, it sleeps through the next waits, through twice as
 * many each time. */
static void look_out(void) {
    static unsigned in_vain;
    static unsigned to_sleep_through;
    if (to_sleep_through > 0) {
        to_sleep_through--;
        return;
    }
    uint64_t until_us = clock_boottime_us() + LOOK_OUT_US;
    while (__atomic_load_n(&writer.asked, __ATOMIC_RELAXED) == NULL) {
        if (clock_boottime_us() >= until_us) {
            in_vain += in_vain < IN_VAIN_MAX;
            to_sleep_through = (1U << in_vain) - 1;
            return;
        }
        sched_yield();
    }
    in_vain = 0;
}

static struct job *take_asked(void) {
    look_out();
    pthread_mutex_lock(&writer.mutex);
    while (writer.asked == NULL) {
        pthread_cond_wait(&writer.is_asked, &writer.mutex);
    }
    struct job *job = writer.asked;
    __atomic_store_n(&writer.asked, job->next, __ATOMIC_RELAXED);
    writer.running = job;
    pthread_mutex_unlock(&writer.mutex);
    return job;
}

static void write_job(struct job *job) {
    const struct iocb *iocb = job->iocb;
    const struct iovec *parts = (const struct iovec *)(uintptr_t)iocb->aio_buf;
    ssize_t size;
    do {
        size = pwritev2((int)iocb->aio_fildes, parts, (int)iocb->aio_nbytes, iocb->aio_offset,
                        iocb->aio_rw_flags & ~RWF_NOWAIT);
    } while (size < 0 && errno == EINTR);
    job->event = (struct io_event){
        .data = iocb->aio_data, .obj = (uint64_t)(uintptr_t)iocb, .res = size < 0 ? -errno : size};
}

static void *run(void *ignored) {
    (void)ignored;
    for (;;) {
        struct job *job = take_asked();
        write_job(job);
        int told_through = job->told_through;
        pthread_mutex_lock(&writer.mutex);
        writer.running = NULL;
        append(&writer.finished, job);
        pthread_cond_broadcast(&writer.is_finished);
        pthread_mutex_unlock(&writer.mutex);
        /* From here on the loop may free all that belongs to the write. */
        uint64_t one = 1;
        if (write(told_through, &one, sizeof one) != (ssize_t)sizeof one) {
            abort(); /* nobody would ever hear of the write */
        }
        close(told_through);
    }
    return NULL;
}

/* A forked process has no such thread, and nothing on its way. */
static void forget(void) {
    pthread_mutex_init(&writer.mutex, NULL);
    pthread_cond_init(&writer.is_asked, NULL);
    pthread_cond_init(&writer.is_finished, NULL);
    writer.asked = NULL;
    writer.running = NULL;
    writer.finished = NULL;
    writer.is_started = false;
}

/* With the mutex held. Signals are for the loop's thread. */
static bool start(void) {
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    static bool is_fork_watched;
    if (!is_fork_watched && pthread_atfork(NULL, NULL, forget) != 0) {
        return false;
    }
    is_fork_watched = true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_create(&thread, NULL, run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_started) {
        pthread_setname_np(thread, "log-writer");
        pthread_detach(thread);
    }
    return is_started;
}

bool raft_writer_takes(const struct iocb *iocb) {
    return iocb->aio_lio_opcode == IOCB_CMD_PWRITEV && (iocb->aio_flags & IOCB_FLAG_RESFD) != 0 &&
           (iocb->aio_rw_flags & RWF_DSYNC) != 0;
}

bool raft_writer_submit(aio_context_t context, const struct iocb *iocb) {
    struct job *job = malloc(sizeof *job);
    if (job == NULL) {
        return false;
    }
    *job = (struct job){.context = context, .iocb = iocb};
    job->told_through = fcntl((int)iocb->aio_resfd, F_DUPFD_CLOEXEC, 0);
    if (job->told_through < 0) {
        free(job);
        return false;
    }
    pthread_mutex_lock(&writer.mutex);
    if (!writer.is_started) {
        writer.is_started = start();
    }
    bool is_started = writer.is_started;
    if (is_started) {
        append(&writer.asked, job);
    }
    pthread_mutex_unlock(&writer.mutex);
    /* Behind the mutex, which the woken thread takes at once. */
    if (is_started) {
        pthread_cond_signal(&writer.is_asked);
    }
    if (!is_started) {
        close(job->told_through);
        free(job);
    }
    return is_started;
}

/* With the mutex held; NULL: none of this context. */
static struct job *take_finished(aio_context_t context) {
    struct job **place = &writer.finished;
    while (*place != NULL && (*place)->context != context) {
        place = &(*place)->next;
    }
    struct job *job = *place;
    if (job != NULL) {
        *place = job->next;
    }
    return job;
}

bool raft_writer_finished(aio_context_t context, struct io_event *out_event) {
    pthread_mutex_lock(&writer.mutex);
    struct job *job = take_finished(context);
    pthread_mutex_unlock(&writer.mutex);
    if (job == NULL) {
        return false;
    }
    *out_event = job->event;
    free(job);
    return true;
}

static bool is_busy(aio_context_t context) {
    if (writer.running != NULL && writer.running->context == context) {
        return true;
    }
    for (const struct job *job = writer.asked; job != NULL; job = job->next) {
        if (job->context == context) {
            return true;
        }
    }
    return false;
}

void raft_writer_end(aio_context_t context) {
    pthread_mutex_lock(&writer.mutex);
    while (is_busy(context)) {
        pthread_cond_wait(&writer.is_finished, &writer.mutex);
    }
    for (struct job *job; (job = take_finished(context)) != NULL;) {
        free(job);
    }
    pthread_mutex_unlock(&writer.mutex);
}
