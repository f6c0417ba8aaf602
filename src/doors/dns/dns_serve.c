/* UDP and TCP: datagrams in and out; messages with two bytes of length before them (RFC 7766). */
#include "doors/dns/dns_door_internal.h"

/* Who asks: the user of the client's certificate, else that of --dns-user. */
static struct caller caller_of(const struct dns_door *door, const struct caller *shown) {
    struct auth_user user;
    const struct auth *auth = state_view_auth(service_view(door->service));
    if (shown != NULL && shown->user_id != 0) {
        return *shown;
    }
    if (door->user.size == 0 || !auth_find_user(auth, door->user, &user)) {
        return caller_anonymous;
    }
    return (struct caller){.user_id = user.id, .auth_version = user.version};
}

static struct registry_network network_of(const struct datagram_source *source) {
    if (source->from.any.sa_family == AF_INET) {
        return registry_network_of((const uint8_t *)&source->from.ipv4.sin_addr, 4, 32);
    }
    return registry_network_of(source->from.ipv6.sin6_addr.s6_addr, 16, REGISTRY_NETWORK_BITS);
}

void dns_on_datagram(void *context, struct datagram_socket *socket,
                     const struct datagram_source *source, struct bytes bytes) {
    struct dns_door *door = context;
    const struct dns_client client = {
        .caller = caller_of(door, NULL), .has_network = true, .network = network_of(source)};
    size_t size = dns_answer(door, &client, bytes, true, door->reply);
    if (size > 0) {
        (void)datagram_send(socket, source, bytes_of(door->reply, size));
    }
}

/* --- TCP. --- */

enum { LENGTH_SIZE = 2 };

/* One message. False: the client broke the protocol. */
static bool answer(struct raw_connection *connection, struct bytes message) {
    struct dns_door *door = raw_connection_context(connection);
    struct dns_client client = {.caller = caller_of(door, raw_connection_caller(connection))};
    char address[NET_ADDRESS_SIZE];
    if (!registry_zones_is_empty(door->zones)) {
        raw_connection_address(connection, address);
        client.has_network = registry_network_parse(address, &client.network);
    }
    size_t size = dns_answer(door, &client, message, false, door->reply + LENGTH_SIZE);
    if (size == 0) {
        raw_connection_refuse(connection, "not a DNS query");
        return false;
    }
    door->reply[0] = (uint8_t)(size >> 8);
    door->reply[1] = (uint8_t)size;
    raw_connection_send(connection, bytes_of(door->reply, LENGTH_SIZE + size));
    return true;
}

/* Queries may come one behind another; a client that does not take its answers is not listened to
 * until it does. */
static size_t on_bytes(struct raw_connection *connection, struct bytes bytes) {
    size_t used = 0;
    while (bytes.size - used >= LENGTH_SIZE) {
        const uint8_t *at = bytes.data + used;
        size_t size = (size_t)at[0] << 8 | at[1];
        if (size > DNS_QUERY_SIZE_MAX) {
            raw_connection_refuse(connection, "a DNS query that is too long");
            break;
        }
        if (bytes.size - used - LENGTH_SIZE < size) {
            break;
        }
        if (!raw_connection_is_writable(connection)) {
            raw_connection_pause(connection);
            break;
        }
        if (!answer(connection, bytes_of(at + LENGTH_SIZE, size))) {
            break;
        }
        used += LENGTH_SIZE + size;
    }
    return used;
}

static void on_writable(struct raw_connection *connection) {
    raw_connection_resume(connection);
}

static void on_close(struct raw_connection *connection) {
    (void)connection;
}

/* No two bytes tell a DNS query, so it has its own port. */
const struct raw_protocol dns_protocol = {
    .name = "dns",
    .partial_max = LENGTH_SIZE + DNS_QUERY_SIZE_MAX,
    .idle_limit_ms = 30 * 1000,
    .on_bytes = on_bytes,
    .on_writable = on_writable,
    .on_close = on_close,
};
