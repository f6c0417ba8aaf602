#include "doors/etcd/etcd_clients.h"

#include <stdbool.h>
#include <string.h>

static bool is_version(struct bytes text) {
    if (text.size == 0 || text.size >= ETCD_CLIENT_VERSION_SIZE) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] != '.' && (text.data[i] < '0' || text.data[i] > '9')) {
            return false;
        }
    }
    return true;
}

static struct etcd_client_version *add(struct etcd_clients *clients, struct bytes text) {
    struct etcd_client_version *version = &clients->versions[clients->n++];
    memcpy(version->text, text.data, text.size);
    version->text[text.size] = '\0';
    return version;
}

static struct etcd_client_version *find_or_add(struct etcd_clients *clients, struct bytes text) {
    for (size_t i = 1; i < clients->n; i++) {
        struct etcd_client_version *version = &clients->versions[i];
        if (bytes_equal(bytes_from_text(version->text), text)) {
            return version;
        }
    }
    bool is_known = is_version(text) && clients->n < ETCD_CLIENT_VERSIONS_MAX;
    return is_known ? add(clients, text) : &clients->versions[0];
}

void etcd_clients_count(struct etcd_clients *clients, struct bytes version,
                        enum etcd_client_kind kind) {
    if (clients->n == 0) {
        (void)add(clients, bytes_from_text("unknown"));
    }
    find_or_add(clients, version)->calls[kind]++;
}
