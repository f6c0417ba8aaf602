/* How a client comes by its socket: names, addresses in turn, Unix sockets. */
#include "client/grpc_client_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void connect_next(struct grpc_client *client);

static void on_closed(uv_handle_t *handle) {
    grpc_client_release(handle->data);
}

void grpc_client_socket_close(struct grpc_client *client) {
    if (client->socket_live) {
        client->socket_live = false;
        uv_close(&client->socket.handle, on_closed);
    }
}

static void on_connected(uv_connect_t *request, int result) {
    struct grpc_client *client = request->data;
    if (!client->destroyed && client->state == GRPC_CLIENT_CONNECTING) {
        if (result == 0) {
            result = grpc_client_on_connected(client);
        }
        if (result < 0) {
            client->connect_error = result;
            connect_next(client);
        } else if (client->options.socket_path == NULL) {
            uv_tcp_nodelay(&client->socket.tcp, 1);
        }
    }
    grpc_client_release(client);
}

static void own_socket(struct grpc_client *client) {
    client->socket.handle.data = client;
    client->socket_live = true;
    client->users++;
}

static void start_connect(struct grpc_client *client) {
    struct sockaddr *address = (struct sockaddr *)&client->addresses[client->next_address++];
    int result = uv_tcp_init(client->loop, &client->socket.tcp);
    assert(result == 0); /* without an address family it opens nothing that could fail */
    own_socket(client);
    result = uv_tcp_connect(&client->connect, &client->socket.tcp, address, on_connected);
    if (result == 0) {
        client->users++;
    } else {
        client->connect_error = result;
        connect_next(client);
    }
}

static int start_connect_to_path(struct grpc_client *client) {
    int result = uv_pipe_init(client->loop, &client->socket.pipe, 0);
    if (result == 0) {
        own_socket(client);
        client->users++;
        uv_pipe_connect(&client->connect, &client->socket.pipe, client->socket_path, on_connected);
    }
    return result;
}

static void on_closed_for_retry(uv_handle_t *handle) {
    struct grpc_client *client = handle->data;
    if (client->state == GRPC_CLIENT_CONNECTING && !client->destroyed) {
        if (client->next_address < client->n_addresses) {
            start_connect(client);
        } else {
            grpc_client_fail(client, "cannot be reached", uv_strerror(client->connect_error));
        }
    }
    grpc_client_release(client);
}

/* Goes on in the handle's close callback, so that no failure is reported from inside create. */
static void connect_next(struct grpc_client *client) {
    assert(client->socket_live);
    client->socket_live = false;
    uv_close(&client->socket.handle, on_closed_for_retry);
}

static void on_resolved(uv_getaddrinfo_t *request, int result, struct addrinfo *found) {
    struct grpc_client *client = request->data;
    if (!client->destroyed && client->state == GRPC_CLIENT_CONNECTING) {
        for (struct addrinfo *each = found;
             each != NULL && client->n_addresses < GRPC_CLIENT_ADDRESSES_MAX;
             each = each->ai_next) {
            if (each->ai_addrlen <= sizeof client->addresses[0]) {
                memcpy(&client->addresses[client->n_addresses++], each->ai_addr, each->ai_addrlen);
            }
        }
        if (client->n_addresses == 0) {
            grpc_client_fail(client, "is not a known host",
                             result < 0 ? uv_strerror(result) : "no address");
        } else {
            start_connect(client);
        }
    }
    uv_freeaddrinfo(found);
    grpc_client_release(client);
}

/* Numeric addresses need no resolver and its threads, and neither does the one name that always
 * means this machine (RFC 6761, 6.3), which a minimal system may not even list. */
int grpc_client_socket_open(struct grpc_client *client) {
    struct sockaddr_storage *first = &client->addresses[0];
    if (client->options.socket_path != NULL) {
        return start_connect_to_path(client);
    }
    if (strcmp(client->host, "localhost") == 0) {
        uv_ip4_addr("127.0.0.1", client->options.port, (struct sockaddr_in *)first);
        uv_ip6_addr("::1", client->options.port, (struct sockaddr_in6 *)&client->addresses[1]);
        client->n_addresses = 2;
        start_connect(client);
        return 0;
    }
    if (uv_ip4_addr(client->host, client->options.port, (struct sockaddr_in *)first) == 0 ||
        uv_ip6_addr(client->host, client->options.port, (struct sockaddr_in6 *)first) == 0) {
        client->n_addresses = 1;
        start_connect(client);
        return 0;
    }
    char port[8];
    snprintf(port, sizeof port, "%u", client->options.port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int result =
        uv_getaddrinfo(client->loop, &client->resolver, on_resolved, client->host, port, &hints);
    if (result == 0) {
        client->users++;
    }
    return result;
}
