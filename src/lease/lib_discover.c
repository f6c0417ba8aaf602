/*
 * Directories: the keys under a prefix, kept in memory.
 */
#include "base/clock.h"
#include "lease/lib_copy.h"
#include "lease/lib_entries.h"
#include "lease/lib_result.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHECK_MS = 1000,           /* how often the server is asked whether the entries are current */
    CHECK_ENTRIES_PER_MS = 10, /* the server walks through all of them: less often for many */
    PREFIX_SIZE_MAX = 1024
};

struct lease_directory {
    struct lib_copy copy;
    char *prefix;
    char *end; /* behind the last key that begins so; "" and size 1: all keys */
    size_t end_size;
    lease_directory_callback *callback; /* NULL: nobody is told */
    void *context;
    struct lib_entries entries;
    int64_t revision; /* as of which the entries are true */
    /* A check that found the server further ahead: current as of then when that has come. */
    int64_t doubt_revision;
    uint64_t doubt_ms; /* 0: none */
};

static struct lease_directory *directory_of(struct lib_copy *copy) {
    return list_entry(copy, struct lease_directory, copy);
}

static struct bytes prefix_of(const struct lease_directory *directory) {
    /* All keys: from the first one on. */
    return directory->prefix[0] == '\0' ? bytes_of("", 1) : bytes_from_text(directory->prefix);
}

static void is_current_as_of(struct lease_directory *directory, uint64_t sent_ms) {
    lib_copy_is_current(&directory->copy, sent_ms);
    directory->doubt_ms = 0;
}

/* ---- changes ---- */

static void take_event(void *context, bool is_delete, const struct lib_etcd_key *key) {
    struct lease_directory *directory = context;
    if (directory->copy.is_over) {
        return;
    }
    if (is_delete) {
        lib_entries_remove(&directory->entries, key->key);
    } else if (!lib_entries_put(&directory->entries, key)) {
        lib_copy_fail(&directory->copy, LEASE_QUEUE_FULL, "too many keys begin so");
        return;
    }
    directory->revision =
        key->mod_revision > directory->revision ? key->mod_revision : directory->revision;
}

static void on_watch_message(struct lib_call *call, struct bytes message) {
    struct lease_directory *directory = call->context;
    struct lib_etcd_event event;
    if (!lib_etcd_decode_watch(message, &event) ||
        !lib_etcd_each_event(message, take_event, directory)) {
        lib_copy_fail(&directory->copy, LEASE_PROTOCOL, "the server's answer is malformed");
        return;
    }
    if (directory->copy.is_over) {
        return;
    }
    if (event.is_canceled) {
        lib_copy_again(&directory->copy);
    } else if (event.has_events) {
        if (directory->doubt_ms != 0 && directory->revision >= directory->doubt_revision) {
            is_current_as_of(directory, directory->doubt_ms);
        }
        lib_copy_tell(&directory->copy);
    }
}

static void on_watch_end(struct lib_call *call, enum lib_code code, const char *text) {
    struct lease_directory *directory = call->context;
    directory->copy.watch = NULL;
    lib_copy_ended(&directory->copy, code, text);
}

static void start_watch(struct lease_directory *directory) {
    static const struct lib_method method = {
        .path = "/etcdserverpb.Watch/Watch",
        .is_stream = true,
        .on_message = on_watch_message,
        .on_end = on_watch_end,
    };
    struct buffer message;
    buffer_init(&message);
    lib_etcd_encode_watch(prefix_of(directory), bytes_of(directory->end, directory->end_size),
                          directory->revision + 1, false, &message);
    directory->copy.watch = lib_call_start(directory->copy.connection, &method,
                                           bytes_of(message.data, message.size), directory, 0);
    buffer_clear(&message);
}

/* ---- is it current? A watch of a member that is cut off says nothing, and nothing is wrong with
 * it. So a read that a majority confirms tells the newest revision under the prefix and the number
 * of keys: they are ours exactly if nothing happened that was not told. ---- */

static struct lib_request read_request(const struct lease_directory *directory, bool is_check) {
    struct lib_request request = {.path = "/etcdserverpb.KV/Range", .is_repeatable = true};
    const struct lib_etcd_range range = {
        .key = prefix_of(directory),
        .end = bytes_of(directory->end, directory->end_size),
        .limit = is_check,
        .order = is_check ? LIB_ETCD_SORT_DESCEND : 0,
        .is_by_mod_revision = is_check,
        .keys_only = is_check,
    };
    lib_etcd_encode_range(&range, &request.message);
    return request;
}

static void set_check(struct lease_directory *directory) {
    uint64_t pause_ms = directory->entries.n / CHECK_ENTRIES_PER_MS;
    directory->copy.check_ms = clock_boottime_ms() + (pause_ms > CHECK_MS ? pause_ms : CHECK_MS);
}

static void on_checked(void *context, const struct lib_answer *answer) {
    struct lease_directory *directory = context;
    struct lib_etcd_keys keys;
    struct arena arena;
    int64_t revision = 0;
    directory->copy.checking = NULL;
    if (answer->code != LIB_CODE_OK) {
        lib_copy_ended(&directory->copy, answer->code, answer->text);
        return;
    }
    arena_init(&arena);
    if (!lib_etcd_decode_range(&arena, answer->message, &keys, &revision)) {
        lib_copy_fail(&directory->copy, LEASE_PROTOCOL, "the server's answer is malformed");
        arena_clear(&arena);
        return;
    }
    int64_t newest = keys.n_items > 0 ? keys.items[0].mod_revision : 0;
    bool is_same = keys.count == (int64_t)directory->entries.n &&
                   newest == lib_entries_newest(&directory->entries);
    arena_clear(&arena);
    set_check(directory);
    if (is_same || directory->revision >= revision) {
        is_current_as_of(directory, answer->sent_ms);
    } else if (++directory->copy.n_doubts >= LIB_COPY_DOUBTS_MAX) {
        lib_copy_again(&directory->copy);
    } else if (directory->doubt_ms == 0) {
        directory->doubt_ms = answer->sent_ms;
        directory->doubt_revision = revision;
    }
}

static void check(struct lib_copy *copy) {
    struct lease_directory *directory = directory_of(copy);
    struct lib_request request = read_request(directory, true);
    copy->checking = lib_ask_start(copy->connection, &request, on_checked, directory);
}

/* ---- all of it ---- */

static bool take_all(struct lease_directory *directory, const struct lib_etcd_keys *keys) {
    lib_entries_clear(&directory->entries);
    for (size_t i = 0; i < keys->n_items; i++) {
        if (!lib_entries_put(&directory->entries, &keys->items[i])) {
            return false;
        }
    }
    return keys->count <= (int64_t)keys->n_items;
}

static void on_read(void *context, const struct lib_answer *answer) {
    struct lease_directory *directory = context;
    struct lib_etcd_keys keys;
    struct arena arena;
    directory->copy.reading = NULL;
    if (answer->code != LIB_CODE_OK) {
        lib_copy_ended(&directory->copy, answer->code, answer->text);
        return;
    }
    arena_init(&arena);
    if (!lib_etcd_decode_range(&arena, answer->message, &keys, &directory->revision)) {
        lib_copy_fail(&directory->copy, LEASE_PROTOCOL, "the server's answer is malformed");
    } else if (!take_all(directory, &keys)) {
        lib_copy_fail(&directory->copy, LEASE_QUEUE_FULL, "too many keys begin so");
    } else {
        directory->copy.is_filled = true;
        directory->copy.is_decided = true;
        is_current_as_of(directory, answer->sent_ms);
        start_watch(directory);
        set_check(directory);
        lib_copy_tell(&directory->copy);
    }
    arena_clear(&arena);
}

static void read_all(struct lib_copy *copy) {
    struct lease_directory *directory = directory_of(copy);
    struct lib_request request = read_request(directory, false);
    directory->doubt_ms = 0;
    copy->reading = lib_ask_start(copy->connection, &request, on_read, directory);
}

static void notify(struct lib_copy *copy, enum lease_status status, const char *text) {
    struct lease_directory *directory = directory_of(copy);
    directory->callback(directory, status, text, directory->context);
}

static const struct lib_copy_kind kind = {
    .unsupported = "the server does not serve the etcd API",
    .begin = read_all,
    .check = check,
    .notify = notify,
};

/* ---- what users call ---- */

/* The first key behind all that begin so: the last byte that can grow, grown by one. */
static void set_end(struct lease_directory *directory) {
    size_t size = strlen(directory->prefix);
    directory->end = calloc(size + 1, 1);
    if (directory->end == NULL) {
        abort();
    }
    memcpy(directory->end, directory->prefix, size);
    while (size > 0 && (uint8_t)directory->end[size - 1] == UINT8_MAX) {
        size--;
    }
    directory->end_size = size;
    if (size > 0) {
        directory->end[size - 1]++;
    } else {
        directory->end[0] = '\0';
        directory->end_size = 1;
    }
}

enum lease_status lease_discover(struct lease_connection *connection, const char *prefix,
                                 lease_directory_callback *callback, void *context,
                                 struct lease_directory **out_directory) {
    if (prefix == NULL || strlen(prefix) > PREFIX_SIZE_MAX) {
        return lib_error(LEASE_INVALID, "a prefix of at most %d bytes is needed", PREFIX_SIZE_MAX);
    }
    enum lease_status status = lib_check_process(connection);
    if (status != LEASE_OK) {
        return status;
    }
    struct lease_directory *directory = calloc(1, sizeof *directory);
    char *own = strdup(prefix);
    if (directory == NULL || own == NULL) {
        abort();
    }
    directory->prefix = own;
    directory->callback = callback;
    directory->context = context;
    set_end(directory);
    *out_directory = directory;
    lib_copy_open(&directory->copy, connection, &kind, callback != NULL);
    return LEASE_OK;
}

enum lease_status lease_directory_wait(struct lease_directory *directory, int64_t limit_ms) {
    return lib_copy_wait(&directory->copy, limit_ms);
}

enum lease_status lease_directory_entries(struct lease_directory *directory,
                                          const struct lease_entry_list **out_list) {
    struct lease_connection *connection = directory->copy.connection;
    lib_lock(connection);
    enum lease_status status = lib_copy_status(&directory->copy);
    if (status == LEASE_OK) {
        struct lib_result *result = lib_result_create(sizeof(struct lease_entry_list));
        struct lease_entry_list *list = lib_result_value(result);
        list->items = lib_entries_copy(&directory->entries, lib_result_arena(result));
        list->n_items = directory->entries.n;
        list->revision = directory->revision;
        list->age_ms = lib_copy_age(&directory->copy);
        *out_list = list;
    }
    lib_unlock(connection);
    return status;
}

int64_t lease_directory_age_ms(struct lease_directory *directory) {
    return lib_copy_age_ms(&directory->copy);
}

void lease_directory_destroy(struct lease_directory *directory) {
    if (directory == NULL || lib_is_inherited(directory->copy.connection)) {
        return;
    }
    lib_copy_close(&directory->copy);
    lib_entries_clear(&directory->entries);
    free(directory->prefix);
    free(directory->end);
    free(directory);
}
