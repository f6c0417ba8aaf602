#include "lease/lib_resolver.h"

#include "base/host_port.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct lib_resolver {
    atomic_int n_users; /* its owner and its thread */
    int done_fd;
    uint16_t port;
    int error;
    size_t n_addresses;
    struct lib_address addresses[LIB_ADDRESSES_MAX];
    char host[HOST_PORT_HOST_SIZE_MAX + 1];
};

static int look_up(const char *host, uint16_t port, int flags,
                   struct lib_address out_addresses[LIB_ADDRESSES_MAX], size_t *out_n) {
    char service[HOST_PORT_PORT_SIZE_MAX];
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int error = getaddrinfo(host, host_port_service(port, service), &hints, &found);
    if (error != 0) {
        return error;
    }
    size_t n = 0;
    for (struct addrinfo *one = found; one != NULL && n < LIB_ADDRESSES_MAX; one = one->ai_next) {
        if (one->ai_addrlen <= sizeof out_addresses[n].storage) {
            memcpy(&out_addresses[n].storage, one->ai_addr, one->ai_addrlen);
            out_addresses[n++].size = one->ai_addrlen;
        }
    }
    freeaddrinfo(found);
    *out_n = n;
    return n == 0 ? EAI_NONAME : 0;
}

size_t lib_resolver_numeric(const char *host, uint16_t port,
                            struct lib_address out_addresses[LIB_ADDRESSES_MAX]) {
    size_t n = 0;
    return look_up(host, port, AI_NUMERICHOST, out_addresses, &n) == 0 ? n : 0;
}

static void release(struct lib_resolver *resolver) {
    if (atomic_fetch_sub(&resolver->n_users, 1) == 1) {
        close(resolver->done_fd);
        free(resolver);
    }
}

static void *run(void *context) {
    struct lib_resolver *resolver = context;
    resolver->error =
        look_up(resolver->host, resolver->port, 0, resolver->addresses, &resolver->n_addresses);
    (void)eventfd_write(resolver->done_fd, 1);
    release(resolver);
    return NULL;
}

/* Signals are the program's: none is delivered to a thread of the library. */
static int start_thread(struct lib_resolver *resolver) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attributes, run, resolver);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

struct lib_resolver *lib_resolver_start(const char *host, uint16_t port) {
    struct lib_resolver *resolver = calloc(1, sizeof *resolver);
    if (resolver == NULL) {
        return NULL;
    }
    resolver->port = port;
    strncpy(resolver->host, host, sizeof resolver->host - 1);
    resolver->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_init(&resolver->n_users, 2);
    if (resolver->done_fd < 0 || start_thread(resolver) != 0) {
        if (resolver->done_fd >= 0) {
            close(resolver->done_fd);
        }
        free(resolver);
        return NULL;
    }
    return resolver;
}

int lib_resolver_fd(const struct lib_resolver *resolver) {
    return resolver->done_fd;
}

size_t lib_resolver_take(const struct lib_resolver *resolver,
                         struct lib_address out_addresses[LIB_ADDRESSES_MAX],
                         const char **out_error) {
    /* The thread wrote before it made the descriptor readable. */
    if (resolver->error != 0) {
        *out_error = gai_strerror(resolver->error);
        return 0;
    }
    memcpy(out_addresses, resolver->addresses, sizeof resolver->addresses);
    return resolver->n_addresses;
}

void lib_resolver_release(struct lib_resolver *resolver) {
    if (resolver != NULL) {
        release(resolver);
    }
}
