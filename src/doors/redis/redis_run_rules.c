#include "doors/redis/redis_run_rules.h"

#include "core/key_work.h"
#include "doors/redis/redis_command_rules.h"
#include "doors/redis/redis_events_rules.h"
#include "doors/redis/redis_glob_model.h"

#include <string.h>

enum {
    OBJECTS_OF_RUN = 4096, /* RULE_CHANGES_MAX: no run makes more */
    /* Elements that go with their objects, in one run: everybody waits for it. One object may have
     * as many. */
    ELEMENTS_ENDED_MAX = 128 * 1024
};

bool redis_run_is_full(struct redis_run *run) {
    run->is_exceeded = run->is_exceeded || run->reply->size > REDIS_REPLY_BYTES_MAX;
    return run->is_exceeded;
}

bool redis_run_matches(struct redis_run *run, struct bytes pattern, struct bytes text) {
    size_t most = REDIS_GLOB_STEPS_MAX + run->glob_steps_more;
    size_t left = most - run->glob_steps;
    bool is_match = redis_glob_match(pattern, text, &left);
    run->glob_steps = most - left;
    run->is_exceeded = run->is_exceeded || left == 0;
    return is_match;
}

bool redis_run_compare(struct redis_run *run, size_t size, size_t times) {
    run->compare_work += times * (size / KEY_WORK_COMPARED_BYTES);
    run->is_exceeded = run->is_exceeded || run->compare_work > KEY_WORK_TXN_MAX;
    return !run->is_exceeded;
}

/* --- Objects. --- */

void redis_object_load(struct redis_run *run, struct bytes name, struct redis_object *out_object) {
    struct bytes key = redis_key_main(run->arena, run->db, name);
    const struct record *record =
        redis_run_is_full(run) ? NULL : run->store->get(run->context, KEY_SPACE_REDIS, key);
    *out_object = (struct redis_object){.name = name, .key = key};
    if (record != NULL && redis_header_decode(record_value(record), &out_object->header)) {
        out_object->lease_id = record->lease_id;
        out_object->create_revision = record->create_revision;
        out_object->mod_revision = record->mod_revision;
    }
}

bool redis_object_load_as(struct redis_run *run, struct bytes name, enum redis_type type,
                          struct redis_object *out_object) {
    redis_object_load(run, name, out_object);
    if (redis_object_exists(out_object) && out_object->header.type != type) {
        redis_error_type(run);
        return false;
    }
    return true;
}

bool redis_object_create(struct redis_run *run, struct redis_object *object, enum redis_type type) {
    object->header = (struct redis_header){.type = type};
    object->lease_id = 0;
    if (type == REDIS_STRING) {
        return true;
    }
    object->header.id = (uint64_t)run->revision * OBJECTS_OF_RUN + run->n_objects++;
    enum status status =
        run->store->lease_grant(run->context, LEASE_TTL_FOREVER, &object->lease_id);
    if (status != STATUS_OK) {
        redis_error(run, status_text(status));
    }
    return status == STATUS_OK;
}

static void write_header(struct redis_run *run, struct redis_object *object) {
    struct bytes value = redis_header_encode(run->arena, &object->header);
    object->create_revision =
        run->store->put(run->context, KEY_SPACE_REDIS, object->key, value, object->lease_id);
    object->mod_revision = run->revision;
}

void redis_object_save(struct redis_run *run, struct redis_object *object) {
    bool may_be_empty = object->header.type == REDIS_STRING || object->header.type == REDIS_STREAM;
    if (!may_be_empty && object->header.count <= 0) {
        redis_event(run, REDIS_EVENT_GENERIC, "del", object->name);
        redis_object_delete(run, object);
    } else {
        write_header(run, object);
    }
}

void redis_object_erase_header(struct redis_run *run, const struct redis_object *object) {
    if (object->lease_id != 0 && redis_events_wanted(run, REDIS_EVENT_EXPIRED)) {
        /* A tombstone behind a version without a lease was made by a command, any other by expiry:
         * see redis_pubsub.c. */
        const struct redis_header nothing = {.type = REDIS_STRING};
        run->store->put(run->context, KEY_SPACE_REDIS, object->key,
                        redis_header_encode(run->arena, &nothing), 0);
    }
    run->store->delete (run->context, KEY_SPACE_REDIS, object->key);
}

void redis_object_delete(struct redis_run *run, struct redis_object *object) {
    if (object->create_revision != 0) {
        redis_object_erase_header(run, object);
    }
    if (object->lease_id != 0) {
        run->store->lease_end(run->context, object->lease_id);
    }
    size_t n = object->header.count > 0 ? (size_t)object->header.count : 0;
    run->is_exceeded =
        run->is_exceeded || (run->n_ended > 0 && run->n_ended + n > ELEMENTS_ENDED_MAX);
    run->n_ended += n;
    object->header = (struct redis_header){.type = REDIS_NONE};
    object->lease_id = 0;
    object->create_revision = 0;
}

/* True when the object has a lease that runs for so long, from now on. */
static bool set_lease(struct redis_run *run, struct redis_object *object, int64_t ttl_ms) {
    if (object->lease_id != 0) {
        return run->store->lease_set_ttl(run->context, object->lease_id, ttl_ms) == STATUS_OK;
    }
    return run->store->lease_grant(run->context, ttl_ms, &object->lease_id) == STATUS_OK;
}

void redis_object_expire(struct redis_run *run, struct redis_object *object, int64_t ttl_ms,
                         int64_t deadline_ms) {
    if (set_lease(run, object, ttl_ms)) {
        object->header.deadline_ms = deadline_ms;
        write_header(run, object);
    }
}

void redis_object_persist(struct redis_run *run, struct redis_object *object) {
    int64_t lease_id = object->lease_id;
    object->header.deadline_ms = 0;
    if (object->header.type == REDIS_STRING) {
        object->lease_id = 0;
        write_header(run, object);
        run->store->lease_end(run->context, lease_id);
    } else if (set_lease(run, object, LEASE_TTL_FOREVER)) {
        write_header(run, object);
    }
}

int64_t redis_object_remaining_ms(struct redis_run *run, const struct redis_object *object) {
    if (!redis_object_exists(object)) {
        return -2;
    }
    if (object->header.deadline_ms == 0) {
        return -1;
    }
    return run->store->remaining_ms(run->context, object->lease_id, object->header.deadline_ms);
}

/* The lease of an object that becomes a string: kept, given or taken away. Gives the one to be
 * ended after the header was written. */
static int64_t change_lease(struct redis_run *run, struct redis_object *object, int64_t ttl_ms,
                            int64_t deadline_ms) {
    int64_t lease_id = object->lease_id;
    if (ttl_ms < 0) {
        return 0;
    }
    object->header.deadline_ms = 0;
    if (ttl_ms == 0) {
        object->lease_id = 0;
        return lease_id;
    }
    if (set_lease(run, object, ttl_ms)) {
        object->header.deadline_ms = deadline_ms;
    }
    return 0;
}

void redis_object_set_string(struct redis_run *run, struct redis_object *object, struct bytes value,
                             int64_t ttl_ms, int64_t deadline_ms) {
    if (redis_object_exists(object) && object->header.type != REDIS_STRING) {
        int64_t kept_ms = ttl_ms < 0 ? redis_object_remaining_ms(run, object) : -1;
        int64_t kept_deadline_ms = object->header.deadline_ms;
        redis_object_delete(run, object);
        if (ttl_ms < 0) {
            ttl_ms = kept_ms < 0 ? 0 : kept_ms + 1;
            deadline_ms = kept_deadline_ms;
        }
    }
    bool is_new_holder = redis_object_exists(object) && !bytes_equal(object->header.value, value);
    if (is_new_holder) {
        redis_object_erase_header(run, object);
    }
    object->header.type = REDIS_STRING;
    object->header.value = value;
    int64_t ended_id = change_lease(run, object, ttl_ms, deadline_ms);
    write_header(run, object);
    if (ended_id != 0) {
        run->store->lease_end(run->context, ended_id);
    }
}

/* --- Elements. --- */

const struct record *redis_element_get(struct redis_run *run, struct bytes key) {
    return redis_run_is_full(run) ? NULL
                                  : run->store->get(run->context, KEY_SPACE_REDIS_RECORDS, key);
}

void redis_element_put(struct redis_run *run, const struct redis_object *object, struct bytes key,
                       struct bytes value) {
    run->store->put(run->context, KEY_SPACE_REDIS_RECORDS, key, value, object->lease_id);
}

bool redis_element_delete(struct redis_run *run, struct bytes key) {
    return run->store->delete (run->context, KEY_SPACE_REDIS_RECORDS, key);
}

struct collection {
    struct redis_run *run;
    struct redis_records records;
    size_t capacity;
    size_t skip;
    size_t limit;
    size_t bytes;
    bool is_keys_only;
};

static bool collect_one(void *context, const struct record *record) {
    struct collection *collection = context;
    if (collection->skip > 0) {
        collection->skip--;
        return true;
    }
    struct redis_records *records = &collection->records;
    collection->bytes += record->key_size + (collection->is_keys_only ? 0 : record->value_size);
    if (collection->bytes > REDIS_REPLY_BYTES_MAX) {
        collection->run->is_exceeded = true;
        return false;
    }
    if (records->n == collection->capacity) {
        size_t capacity = collection->capacity == 0 ? 16 : 2 * collection->capacity;
        const struct record **at =
            arena_alloc(collection->run->arena, capacity * sizeof records->at[0]);
        if (records->n > 0) {
            memcpy(at, records->at, records->n * sizeof at[0]);
        }
        records->at = at;
        collection->capacity = capacity;
    }
    records->at[records->n++] = record;
    return records->n < collection->limit;
}

static struct redis_records collect(struct collection *collection, const struct key_range *range) {
    struct redis_run *run = collection->run;
    if (collection->limit > 0 && !redis_run_is_full(run) &&
        !run->store->visit(run->context, range, collect_one, collection)) {
        run->is_exceeded = true;
    }
    return collection->records;
}

struct redis_records redis_collect(struct redis_run *run, const struct key_range *range,
                                   size_t skip, size_t limit) {
    struct collection collection = {.run = run, .skip = skip, .limit = limit};
    return collect(&collection, range);
}

struct redis_records redis_collect_keys(struct redis_run *run, const struct key_range *range,
                                        size_t limit) {
    struct collection collection = {.run = run, .limit = limit, .is_keys_only = true};
    return collect(&collection, range);
}

/* --- Arguments and errors. --- */

void redis_error(struct redis_run *run, const char *text) {
    struct bytes rest = bytes_from_text(text);
    uint8_t *whole = arena_alloc(run->arena, 4 + rest.size);
    memcpy(whole, "ERR ", 4);
    memcpy(whole + 4, rest.data, rest.size);
    redis_reply_error(run->reply, bytes_of(whole, 4 + rest.size));
}

void redis_error_syntax(struct redis_run *run) {
    redis_error(run, "syntax error");
}

void redis_error_type(struct redis_run *run) {
    redis_reply_error_text(run->reply,
                           "WRONGTYPE Operation against a key holding the wrong kind of value");
}

bool redis_get_integer_or(struct redis_run *run, struct bytes argument, const char *error,
                          int64_t *out_value) {
    if (!redis_number_integer(argument, out_value)) {
        redis_error(run, error);
        return false;
    }
    return true;
}

bool redis_get_integer(struct redis_run *run, struct bytes argument, int64_t *out_value) {
    return redis_get_integer_or(run, argument, "value is not an integer or out of range",
                                out_value);
}

bool redis_get_double(struct redis_run *run, struct bytes argument, double *out_value) {
    if (!redis_number_double(argument, out_value)) {
        redis_error(run, "value is not a valid float");
        return false;
    }
    return true;
}

static uint8_t lower(uint8_t byte) {
    return byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + 32) : byte;
}

bool redis_word_is(struct bytes argument, const char *word) {
    size_t i = 0;
    while (i < argument.size && word[i] != 0 &&
           lower(argument.data[i]) == lower((uint8_t)word[i])) {
        i++;
    }
    return i == argument.size && word[i] == 0;
}

/* SplitMix64. */
uint64_t redis_random(struct redis_run *run, uint64_t n) {
    uint64_t number = run->seed += UINT64_C(0x9e3779b97f4a7c15);
    number = (number ^ number >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ number >> 27) * UINT64_C(0x94d049bb133111eb);
    return (number ^ number >> 31) % n;
}

bool redis_clamp(int64_t count, int64_t *start, int64_t *stop) {
    *start = *start < 0 ? *start + count : *start;
    *stop = *stop < 0 ? *stop + count : *stop;
    *start = *start < 0 ? 0 : *start;
    *stop = *stop >= count ? count - 1 : *stop;
    return *start <= *stop && *start < count;
}
