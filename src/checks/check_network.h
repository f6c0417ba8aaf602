/*
 * What the connections of all checks share: the loop, the resolver, the TLS settings, the networks
 * that are allowed, the number of descriptors in use.
 */
#ifndef LEASED_CHECKS_CHECK_NETWORK_H
#define LEASED_CHECKS_CHECK_NETWORK_H

#include "base/list.h"
#include "checks/check_command.h"
#include "checks/check_network_list.h"
#include "checks/check_resolver.h"
#include "checks/check_tls.h"
#include "registry/registry_model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum { CHECK_READ_SIZE = 64 * 1024 };

struct check_network_options {
    const char *ca_file;
    struct check_network_list allowed;
    size_t sockets_max;
    struct check_command_options commands;
};

struct check_network {
    uv_loop_t *loop;
    struct check_resolver *resolver;
    struct check_tls *tls;
    struct check_commands *commands;
    struct check_network_list allowed;
    size_t sockets_max;
    size_t n_sockets; /* in use, idle ones among them */
    struct list idle; /* connections that wait for another request, the oldest first */
    size_t n_idle;
    uint8_t *read_buffer; /* bytes are used up before the next read */
    /* What TLS handshakes took in the iteration of the loop that began then. */
    uint64_t agreeing_ms;
    uint64_t agreeing_ns;
    bool is_destroyed;
};

/* The texts of the options outlive it. Aborts when memory is out. */
struct check_network *check_network_create(uv_loop_t *loop,
                                           const struct check_network_options *options);
/* Every probe has ended; the memory goes when the last connection is closed. */
void check_network_destroy(struct check_network *network);
void check_network_release_socket(struct check_network *network);

/* True: there is a descriptor for one more; an idle connection is closed for it if need be. */
bool check_network_make_room(struct check_network *network);
/* False: the TLS settings for this check are being made; ask again a moment later. */
bool check_network_is_ready(struct check_network *network, const struct registry_check *check);

/* --- Connections that are kept for a moment, for checks of the same target. --- */

struct check_stream;
struct check_stream_options;
struct check_stream_events;
/* NULL: there is none. */
struct check_stream *check_network_take_idle(struct check_network *network,
                                             const struct check_stream_options *options,
                                             const struct check_stream_events *events,
                                             void *context);
/* Takes it over. */
void check_network_put_idle(struct check_network *network, struct check_stream *stream);
/* Closes those whose time is over; to be called every second or so. */
void check_network_close_idle(struct check_network *network, bool all);

#endif
