#include "doors/etcd/etcd_lease_read.h"

#include "core/snapshot.h"
#include "doors/etcd/etcd_long_read.h"

#include <assert.h>
#include <stdlib.h>

/* --- All leases. --- */

struct lease_list {
    struct etcd_long_read read; /* must be first */
    int64_t *ids;
    size_t n;
    size_t n_written;
};

static bool collect_id(void *context, const struct lease_facts *facts) {
    struct lease_list *list = context;
    if (key_space_equal(facts->owner, KEY_SPACE_ETCD)) {
        list->ids[list->n++] = facts->id;
    }
    return true;
}

static int compare_ids(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static size_t id_size(int64_t id) {
    return pb_message_size(2, pb_int64_size(1, id));
}

static enum status list_measure(struct etcd_long_read *read, size_t *out_size) {
    struct lease_list *list = list_entry(read, struct lease_list, read);
    const struct lease_view *leases = snapshot_view_leases(read->scan.view);
    size_t count = lease_view_count(leases);
    list->ids = malloc((count > 0 ? count : 1) * sizeof list->ids[0]);
    if (list->ids == NULL) {
        return STATUS_NO_MEMORY;
    }
    lease_view_visit(leases, collect_id, list);
    assert(list->n <= count);
    qsort(list->ids, list->n, sizeof list->ids[0], compare_ids);
    size_t size = etcd_header_size(&read->header);
    for (size_t i = 0; i < list->n; i++) {
        size += id_size(list->ids[i]);
    }
    *out_size = size;
    return STATUS_OK;
}

static void list_write(struct etcd_long_read *read) {
    struct lease_list *list = list_entry(read, struct lease_list, read);
    struct pb_writer writer;
    if (read->sent == 0) {
        etcd_long_read_reserve(read, etcd_header_size(&read->header), &writer);
        etcd_header_write(&writer, &read->header);
        etcd_long_read_commit(read, &writer);
    }
    while (list->n_written < list->n && read->part.size < ETCD_LONG_READ_PART_SIZE) {
        int64_t id = list->ids[list->n_written++];
        etcd_long_read_reserve(read, id_size(id), &writer);
        pb_write_message(&writer, 2, pb_int64_size(1, id));
        pb_write_int64(&writer, 1, id);
        etcd_long_read_commit(read, &writer);
    }
}

static void list_clear(struct etcd_long_read *read) {
    free(list_entry(read, struct lease_list, read)->ids);
}

static const struct etcd_long_read_kind list_kind = {.size = sizeof(struct lease_list),
                                                     .measure = list_measure,
                                                     .write = list_write,
                                                     .clear = list_clear};

void etcd_lease_list_start(struct grpc_call *call) {
    struct etcd_long_read *read = etcd_long_read_create(call, &list_kind);
    if (read != NULL) {
        etcd_long_read_start(read, NULL, 0);
    }
}

/* --- The keys of one. --- */

/* The list of a lease's records changes with every write, so a worker looks for them among all
 * keys. */
struct lease_keys {
    struct etcd_long_read read; /* must be first */
    struct etcd_lease_known known;
    const struct record **keys;
    size_t n;
    size_t capacity;
    size_t n_written;
};

enum { KEYS_CAPACITY_MIN = 1024 };

static bool collect_key(void *context, const struct record *record) {
    struct lease_keys *keys = context;
    if (record->lease_id != keys->known.id) {
        return true;
    }
    if (keys->n == keys->capacity) {
        size_t capacity = keys->capacity == 0 ? KEYS_CAPACITY_MIN : keys->capacity * 2;
        const struct record **larger = realloc(keys->keys, capacity * sizeof keys->keys[0]);
        if (larger == NULL) {
            return false;
        }
        keys->keys = larger;
        keys->capacity = capacity;
    }
    keys->keys[keys->n++] = record;
    return true;
}

static size_t keys_head_size(const struct lease_keys *keys) {
    return etcd_header_size(&keys->read.header) + pb_int64_size(2, keys->known.id) +
           pb_int64_size(3, keys->known.ttl) + pb_int64_size(4, keys->known.granted_ttl);
}

static enum status keys_measure(struct etcd_long_read *read, size_t *out_size) {
    struct lease_keys *keys = list_entry(read, struct lease_keys, read);
    if (!key_view_visit_live(snapshot_view_keys(read->scan.view), KEY_SPACE_ETCD, collect_key,
                             keys)) {
        return STATUS_NO_MEMORY;
    }
    size_t size = keys_head_size(keys);
    for (size_t i = 0; i < keys->n; i++) {
        size += pb_message_size(5, record_key(keys->keys[i]).size);
    }
    *out_size = size;
    return STATUS_OK;
}

static void keys_write(struct etcd_long_read *read) {
    struct lease_keys *keys = list_entry(read, struct lease_keys, read);
    struct pb_writer writer;
    if (read->sent == 0) {
        etcd_long_read_reserve(read, keys_head_size(keys), &writer);
        etcd_header_write(&writer, &read->header);
        pb_write_int64(&writer, 2, keys->known.id);
        pb_write_int64(&writer, 3, keys->known.ttl);
        pb_write_int64(&writer, 4, keys->known.granted_ttl);
        etcd_long_read_commit(read, &writer);
    }
    while (keys->n_written < keys->n && read->part.size < ETCD_LONG_READ_PART_SIZE) {
        struct bytes key = record_key(keys->keys[keys->n_written++]);
        etcd_long_read_reserve(read, pb_message_size(5, key.size), &writer);
        pb_write_element(&writer, 5, key);
        etcd_long_read_commit(read, &writer);
    }
}

static void keys_clear(struct etcd_long_read *read) {
    free(list_entry(read, struct lease_keys, read)->keys);
}

static const struct etcd_long_read_kind keys_kind = {.size = sizeof(struct lease_keys),
                                                     .measure = keys_measure,
                                                     .write = keys_write,
                                                     .clear = keys_clear};

void etcd_lease_keys_start(struct grpc_call *call, const struct etcd_lease_known *known) {
    struct etcd_long_read *read = etcd_long_read_create(call, &keys_kind);
    if (read != NULL) {
        list_entry(read, struct lease_keys, read)->known = *known;
        read->scan.lease_id = known->id;
        etcd_long_read_start(read, NULL, 0);
    }
}
