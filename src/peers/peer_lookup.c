#include "peers/peer_lookup.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Held by the loop and by the thread; whoever lets go last frees it. */
struct peer_lookup {
    pthread_mutex_t lock;
    unsigned n_holders;
    bool is_over; /* the loop's handle is closed or closing: nothing may be sent to it */
    struct peer_addresses addresses;
    struct host_port address;
    /* The loop's alone. */
    uv_async_t async;
    struct peer_handles *handles;
    void (*done)(void *data, const struct peer_addresses *addresses);
    void *data;
};

static void let_go(struct peer_lookup *lookup) {
    pthread_mutex_lock(&lookup->lock);
    bool is_last = --lookup->n_holders == 0;
    pthread_mutex_unlock(&lookup->lock);
    if (is_last) {
        pthread_mutex_destroy(&lookup->lock);
        free(lookup);
    }
}

static void *look_up(void *data) {
    struct peer_lookup *lookup = data;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
    struct addrinfo *found = NULL;
    char service[HOST_PORT_PORT_SIZE_MAX];
    host_port_service(lookup->address.port, service);
    if (getaddrinfo(lookup->address.host, service, &hints, &found) != 0) {
        found = NULL;
    }
    pthread_mutex_lock(&lookup->lock);
    struct peer_addresses *addresses = &lookup->addresses;
    for (const struct addrinfo *at = found;
         at != NULL && addresses->n < PEER_LOOKUP_ADDRESSES_MAX && !lookup->is_over;
         at = at->ai_next) {
        memcpy(&addresses->at[addresses->n++], at->ai_addr, at->ai_addrlen);
    }
    if (!lookup->is_over) {
        uv_async_send(&lookup->async);
    }
    pthread_mutex_unlock(&lookup->lock);
    if (found != NULL) {
        freeaddrinfo(found);
    }
    let_go(lookup);
    return NULL;
}

static void closed(uv_handle_t *handle) {
    struct peer_lookup *lookup = handle->data;
    struct peer_handles *handles = lookup->handles;
    let_go(lookup);
    peer_handles_remove(handles);
}

void peer_lookup_abandon(struct peer_lookup *lookup) {
    pthread_mutex_lock(&lookup->lock);
    lookup->is_over = true;
    pthread_mutex_unlock(&lookup->lock);
    uv_close((uv_handle_t *)&lookup->async, closed);
}

static void finished(uv_async_t *async) {
    struct peer_lookup *lookup = async->data;
    peer_lookup_abandon(lookup);
    /* The thread is through with them: it sends once, at its end. */
    lookup->done(lookup->data, &lookup->addresses);
}

static bool start_thread(struct peer_lookup *lookup) {
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all;
    sigset_t before;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    /* Signals are for the threads that expect them. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_create(&thread, &attributes, look_up, lookup) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return is_started;
}

struct peer_lookup *
peer_lookup_start(uv_loop_t *loop, struct peer_handles *handles, const struct host_port *address,
                  void (*done)(void *data, const struct peer_addresses *addresses), void *data) {
    struct peer_lookup *lookup = calloc(1, sizeof *lookup);
    if (lookup == NULL) {
        abort();
    }
    *lookup = (struct peer_lookup){
        .n_holders = 2, .address = *address, .handles = handles, .done = done, .data = data};
    pthread_mutex_init(&lookup->lock, NULL);
    if (uv_async_init(loop, &lookup->async, finished) != 0) {
        pthread_mutex_destroy(&lookup->lock);
        free(lookup);
        return NULL;
    }
    lookup->async.data = lookup;
    peer_handles_add(handles);
    if (!start_thread(lookup)) {
        let_go(lookup); /* what the thread would have held */
        peer_lookup_abandon(lookup);
        return NULL;
    }
    return lookup;
}
