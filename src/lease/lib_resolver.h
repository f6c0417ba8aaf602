/*
 * Addresses of a host by name, in a thread of its own: the system's resolver may take seconds, and
 * the keepers of sessions must not wait for it.
 */
#ifndef LEASED_LEASE_LIB_RESOLVER_H
#define LEASED_LEASE_LIB_RESOLVER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { LIB_ADDRESSES_MAX = 8 };

struct lib_address {
    struct sockaddr_storage storage;
    socklen_t size;
};

struct lib_resolver;

/* Addresses in figures, at once. 0: it is a name. */
size_t lib_resolver_numeric(const char *host, uint16_t port,
                            struct lib_address out_addresses[LIB_ADDRESSES_MAX]);

/* NULL: no thread or descriptor can be had. */
struct lib_resolver *lib_resolver_start(const char *host, uint16_t port);
/* Readable when it is done. */
int lib_resolver_fd(const struct lib_resolver *resolver);
/* Only when it is done. 0: out_error says why, a text of the system. */
size_t lib_resolver_take(const struct lib_resolver *resolver,
                         struct lib_address out_addresses[LIB_ADDRESSES_MAX],
                         const char **out_error);
/* Does not wait: the thread ends by itself. Accepts NULL. */
void lib_resolver_release(struct lib_resolver *resolver);

#endif
