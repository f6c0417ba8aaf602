#include "lease/lib_connection.h"

#include "base/clock.h"
#include "lease/lib_copy.h"
#include "lease/lib_etcd_late.h"
#include "lease/lib_register.h"
#include "lease/lib_session.h"
#include "lease/lib_wait.h"
#include "lease/lib_watch.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 8,
    READS_MAX = 32, /* before timers are looked at again */
    STEPS_MAX = 64, /* what one step causes is done in the next */
    ORPHAN_MS = 10,
    NEIGHBOUR_MS = 20, /* another thread handles events: look again after so long */
    MS_IN_S = 1000,
    NS_IN_MS = 1000000
};

void lib_lock(struct lease_connection *connection) {
    if (!lib_is_inherited(connection)) {
        pthread_mutex_lock(&connection->mutex);
    }
}

void lib_unlock(struct lease_connection *connection) {
    if (!lib_is_inherited(connection)) {
        pthread_mutex_unlock(&connection->mutex);
    }
}

static int add(struct lease_connection *connection, int fd, void *tag) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = tag};
    return epoll_ctl(connection->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

int lib_loop_init(struct lease_connection *connection) {
    connection->timer_ms = UINT64_MAX;
    connection->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    connection->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    /* It goes on while the machine sleeps, so that a loss is told as soon as it wakes. */
    connection->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    connection->reader_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (connection->epoll_fd < 0 || connection->wake_fd < 0 || connection->timer_fd < 0 ||
        connection->reader_fd < 0 ||
        add(connection, connection->wake_fd, &connection->wake_fd) != 0 ||
        add(connection, connection->timer_fd, &connection->timer_fd) != 0) {
        return errno;
    }
    return 0;
}

void lib_loop_clear(struct lease_connection *connection) {
    const int fds[] = {connection->epoll_fd, connection->wake_fd, connection->timer_fd,
                       connection->reader_fd};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

void lib_wake(struct lease_connection *connection) {
    (void)eventfd_write(connection->wake_fd, 1);
}

void lib_changed(struct lease_connection *connection) {
    pthread_cond_broadcast(&connection->changed);
    if (connection->is_reader_waiting) {
        connection->is_reader_waiting = false;
        (void)eventfd_write(connection->reader_fd, 1);
    }
}

/* ---- one step ---- */

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t wake_ms(const struct lease_connection *connection) {
    uint64_t wake = least(lib_calls_wake_ms(connection), lib_ready_wake_ms(connection));
    wake = least(wake, lib_sessions_wake_ms(connection));
    wake = least(wake, lib_waits_wake_ms(connection));
    wake = least(wake, lib_etcd_late_wake_ms(connection));
    wake = least(wake, lib_copies_wake_ms(connection));
    wake = least(wake, lib_registrations_wake_ms(connection));
    return least(wake, lib_watches_wake_ms(connection));
}

/* One that is early is left as it is: deadlines come and go with every call, and the step that it
 * causes sets it again. */
static void set_timer(struct lease_connection *connection, uint64_t at_ms) {
    if (at_ms >= connection->timer_ms) {
        return;
    }
    connection->timer_ms = at_ms;
    uint64_t due_ms = at_ms == 0 ? 1 : at_ms;
    const struct itimerspec timer = {.it_value = {.tv_sec = (time_t)(due_ms / MS_IN_S),
                                                  .tv_nsec = (long)(due_ms % MS_IN_S * NS_IN_MS)}};
    int result = timerfd_settime(connection->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL);
    assert(result == 0);
}

void lib_step(struct lease_connection *connection) {
    if (lib_is_inherited(connection)) {
        return;
    }
    for (unsigned i = 0; i < STEPS_MAX; i++) {
        uint64_t now_ms = clock_boottime_ms();
        lib_calls_expire(connection, now_ms);
        lib_sessions_poll(connection, now_ms);
        lib_waits_poll(connection, now_ms);
        lib_etcd_late_poll(connection, now_ms);
        lib_watches_poll(connection, now_ms);
        lib_copies_poll(connection, now_ms);
        lib_registrations_poll(connection, now_ms);
        lib_ready_step(connection, now_ms);
        uint64_t wake = wake_ms(connection);
        if (wake > now_ms && !connection->is_dirty) {
            set_timer(connection, wake);
            return;
        }
        connection->is_dirty = false;
    }
    set_timer(connection, clock_boottime_ms() + 1);
}

/* ---- events ---- */

static void clear_counter(int fd) {
    uint64_t count;
    ssize_t size = read(fd, &count, sizeof count);
    (void)size;
}

static void read_socket(struct lease_connection *connection) {
    for (unsigned i = 0; i < READS_MAX && connection->socket != NULL; i++) {
        bool came = lib_socket_read(connection->socket);
        lib_calls_take(connection);
        if (!came) {
            return;
        }
    }
}

static void handle(struct lease_connection *connection, const struct epoll_event *event) {
    if (event->data.ptr == &connection->wake_fd) {
        clear_counter(connection->wake_fd);
    } else if (event->data.ptr == &connection->timer_fd) {
        clear_counter(connection->timer_fd);
        connection->timer_ms = UINT64_MAX;
    } else {
        read_socket(connection);
    }
}

void lib_loop_process(struct lease_connection *connection, int timeout_ms) {
    struct epoll_event events[EVENTS_MAX];
    lib_unlock(connection);
    int n = epoll_wait(connection->epoll_fd, events, EVENTS_MAX, timeout_ms);
    lib_lock(connection);
    for (int i = 0; i < n; i++) {
        handle(connection, &events[i]);
    }
    lib_step(connection);
    lib_notice_run_all(connection);
}

/* Closed in a callback, and what it had is given back. */
static bool may_be_left(const struct lease_connection *connection) {
    return connection->is_orphan &&
           (connection->n_farewells == 0 || clock_boottime_ms() >= connection->farewell_until_ms);
}

void *lib_loop_run(void *context) {
    struct lease_connection *connection = context;
    lib_lock(connection);
    connection->is_processing = true;
    while (!connection->is_stopping && !may_be_left(connection)) {
        lib_loop_process(connection, connection->is_orphan ? ORPHAN_MS : -1);
    }
    bool is_orphan = connection->is_orphan;
    lib_unlock(connection);
    if (is_orphan) {
        pthread_detach(pthread_self());
        lib_connection_finish(connection);
    }
    return NULL;
}

/* ---- waiting ---- */

static void wait_changed(struct lease_connection *connection, uint64_t limit_ms) {
    if (limit_ms == UINT64_MAX) {
        pthread_cond_wait(&connection->changed, &connection->mutex);
        return;
    }
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t now_ms = clock_boottime_ms();
    uint64_t left_ms = limit_ms > now_ms ? limit_ms - now_ms : 0;
    uint64_t nanoseconds = (uint64_t)until.tv_nsec + left_ms % MS_IN_S * NS_IN_MS;
    until.tv_sec += (time_t)(left_ms / MS_IN_S + nanoseconds / ((uint64_t)MS_IN_S * NS_IN_MS));
    until.tv_nsec = (long)(nanoseconds % ((uint64_t)MS_IN_S * NS_IN_MS));
    pthread_cond_timedwait(&connection->changed, &connection->mutex, &until);
}

static int timeout_of(uint64_t limit_ms) {
    uint64_t now_ms = clock_boottime_ms();
    if (limit_ms == UINT64_MAX) {
        return -1;
    }
    uint64_t left_ms = limit_ms > now_ms ? limit_ms - now_ms : 0;
    return left_ms > INT32_MAX ? INT32_MAX : (int)left_ms;
}

/* ---- a thread that waits reads for itself ---- */

static bool can_lend(const struct lease_connection *connection) {
    return !connection->has_reader && connection->socket != NULL &&
           lib_socket_state(connection->socket) == LIB_SOCKET_OPEN;
}

static bool is_lent(const struct lease_connection *connection) {
    return connection->socket != NULL && lib_socket_is_lent(connection->socket);
}

/* An answer that another thread reads costs two changes of threads more. The connection's own
 * thread keeps the timer and runs callbacks; what either does with the connection is done with the
 * mutex held. Others that wait meanwhile are told as ever. */
static void read_until(struct lease_connection *connection, const bool *done, uint64_t limit_ms) {
    struct pollfd ready[] = {
        {.fd = lib_socket_fd(connection->socket), .events = POLLIN},
        {.fd = connection->reader_fd, .events = POLLIN},
    };
    lib_socket_lend(connection->socket, true);
    connection->has_reader = true;
    while (!*done && is_lent(connection) && clock_boottime_ms() < limit_ms) {
        connection->is_reader_waiting = true;
        lib_unlock(connection);
        int n = poll(ready, sizeof ready / sizeof ready[0], timeout_of(limit_ms));
        lib_lock(connection);
        connection->is_reader_waiting = false;
        if (n > 0 && ready[1].revents != 0) {
            clear_counter(connection->reader_fd);
        }
        if (n > 0 && ready[0].revents != 0 && is_lent(connection)) {
            read_socket(connection);
            lib_step(connection);
        }
    }
    connection->has_reader = false;
    /* Another socket may be there by now, which was never lent. */
    if (is_lent(connection)) {
        lib_socket_lend(connection->socket, false);
    }
}

/* The connection's own thread does what is due, unless it is in a callback: one that waits for the
 * thread that waits here, as close() in Python does, would wait for ever. */
static void wait_beside_thread(struct lease_connection *connection, const bool *done,
                               uint64_t limit_ms) {
    uint64_t now_ms = clock_boottime_ms();
    uint64_t wake = wake_ms(connection);
    uint64_t due_ms = wake == UINT64_MAX ? wake : (wake > now_ms ? wake : now_ms) + NEIGHBOUR_MS;
    uint64_t until_ms = least(limit_ms, due_ms);
    if (can_lend(connection)) {
        read_until(connection, done, until_ms);
    } else {
        wait_changed(connection, until_ms);
    }
    if (!*done && clock_boottime_ms() >= due_ms) {
        lib_step(connection);
    }
}

void lib_wait_until(struct lease_connection *connection, const bool *done, uint64_t limit_ms) {
    uint64_t limit = limit_ms == 0 ? UINT64_MAX : limit_ms;
    while (!*done && clock_boottime_ms() < limit) {
        if (connection->has_thread) {
            wait_beside_thread(connection, done, limit);
        } else if (connection->is_processing) {
            wait_changed(connection, least(limit, clock_boottime_ms() + NEIGHBOUR_MS));
        } else {
            connection->is_processing = true;
            lib_loop_process(connection, timeout_of(limit));
            connection->is_processing = false;
            lib_changed(connection);
        }
    }
}

enum lease_status lib_may_wait(struct lease_connection *connection) {
    if (connection->notice_object != NULL &&
        pthread_equal(connection->notice_thread, pthread_self())) {
        return lib_error(LEASE_INVALID, "a function that waits was called from a callback");
    }
    return lib_check_process(connection);
}

int lease_fd(struct lease_connection *connection) {
    return connection->epoll_fd;
}

int lease_timeout_ms(struct lease_connection *connection) {
    if (lib_is_inherited(connection)) {
        return -1;
    }
    lib_lock(connection);
    uint64_t wake = wake_ms(connection);
    bool has_notices = !list_is_empty(&connection->notices);
    lib_unlock(connection);
    return has_notices ? 0 : timeout_of(wake);
}

void lease_process(struct lease_connection *connection) {
    if (lib_is_inherited(connection)) {
        return;
    }
    lib_lock(connection);
    if (!connection->has_thread && !connection->is_processing) {
        connection->is_processing = true;
        lib_step(connection);
        lib_loop_process(connection, 0);
        connection->is_processing = false;
        lib_changed(connection);
    }
    lib_unlock(connection);
}
