#include "lease/lib_etcd_late.h"

#include "base/clock.h"
#include "lease/lib_etcd_wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PAUSE_MS_MIN = 1000, PAUSE_MS_MAX = 30 * 1000, KEPT_MS = 60 * 60 * 1000 };

struct late_key {
    struct list link; /* in the connection's late_keys */
    int64_t session_id;
    bool is_asking;
    uint64_t since_ms;
    uint64_t pause_ms;
    uint64_t at_ms; /* when it is deleted again */
    char key[];
};

void lib_etcd_late_add(struct lease_connection *connection, int64_t session_id, const char *key) {
    size_t size = strlen(key) + 1;
    struct late_key *late = calloc(1, sizeof *late + size);
    if (late == NULL) {
        abort();
    }
    memcpy(late->key, key, size);
    late->session_id = session_id;
    late->since_ms = clock_boottime_ms();
    late->pause_ms = PAUSE_MS_MIN;
    late->at_ms = late->since_ms + late->pause_ms;
    list_append(&connection->late_keys, &late->link);
}

static void drop(struct late_key *late) {
    assert(!late->is_asking);
    list_remove(&late->link);
    free(late);
}

/* Whatever the answer is, this was not the last time. */
static void on_deleted(void *context, const struct lib_answer *answer) {
    struct late_key *late = context;
    (void)answer;
    late->is_asking = false;
    late->at_ms = clock_boottime_ms() + late->pause_ms;
    late->pause_ms = late->pause_ms < PAUSE_MS_MAX / 2 ? late->pause_ms * 2 : PAUSE_MS_MAX;
}

static void delete_again(struct lease_connection *connection, struct late_key *late) {
    struct lib_request request;
    lib_etcd_encode_removal(late->key, &request);
    late->is_asking = true;
    (void)lib_ask_start(connection, &request, on_deleted, late);
}

static bool is_wanted(const struct lease_connection *connection, const struct late_key *late,
                      uint64_t now_ms) {
    const struct lease_session *session = lib_session_find(connection, late->session_id);
    return session != NULL && lib_session_is_alive(session) && now_ms < late->since_ms + KEPT_MS;
}

void lib_etcd_late_poll(struct lease_connection *connection, uint64_t now_ms) {
    struct list *keys = &connection->late_keys;
    struct list *next;
    for (struct list *node = keys->next; node != keys; node = next) {
        next = node->next;
        struct late_key *late = list_entry(node, struct late_key, link);
        if (late->is_asking || late->at_ms > now_ms) {
            continue;
        }
        if (is_wanted(connection, late, now_ms)) {
            delete_again(connection, late);
        } else {
            drop(late);
        }
    }
}

uint64_t lib_etcd_late_wake_ms(const struct lease_connection *connection) {
    uint64_t wake_ms = UINT64_MAX;
    const struct list *keys = &connection->late_keys;
    for (const struct list *node = keys->next; node != keys; node = node->next) {
        const struct late_key *late = list_entry(node, struct late_key, link);
        if (!late->is_asking && late->at_ms < wake_ms) {
            wake_ms = late->at_ms;
        }
    }
    return wake_ms;
}

void lib_etcd_late_clear(struct lease_connection *connection) {
    while (!list_is_empty(&connection->late_keys)) {
        drop(list_entry(connection->late_keys.next, struct late_key, link));
    }
}
