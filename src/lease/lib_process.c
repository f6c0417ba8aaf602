/* Which process a connection belongs to: that which opened it. A child of fork() has a copy of the
 * memory and shares the descriptors, but has none of the threads. A byte that it wrote would be a
 * byte of its parent's connection. */
#include "lease/lib_connection.h"

#include <stdatomic.h>
#include <unistd.h>

/* Counted instead of asking for the process's id: that is a system call, and this is looked at with
 * every lock of a mutex. */
static atomic_uint n_forks;

static void count_fork(void) {
    atomic_fetch_add_explicit(&n_forks, 1, memory_order_relaxed);
}

static void watch_forks(void) {
    (void)pthread_atfork(NULL, NULL, count_fork);
}

void lib_process_own(struct lease_connection *connection) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    connection->n_forks = atomic_load_explicit(&n_forks, memory_order_relaxed);
}

bool lib_is_inherited(const struct lease_connection *connection) {
    return connection->n_forks != atomic_load_explicit(&n_forks, memory_order_relaxed);
}

enum lease_status lib_check_process(const struct lease_connection *connection) {
    return lib_is_inherited(connection)
               ? lib_error(LEASE_INVALID, "this connection belongs to the process that opened it: "
                                          "open another one after fork()")
               : LEASE_OK;
}

void lib_process_abandon(struct lease_connection *connection) {
    int fd = -1;
    /* A thread of the parent may have been in the middle of something. */
    if (pthread_mutex_trylock(&connection->mutex) == 0 && connection->socket != NULL) {
        fd = lib_socket_fd(connection->socket);
    }
    if (fd >= 0) {
        close(fd);
    }
    lib_loop_clear(connection);
}
