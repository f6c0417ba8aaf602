#include "lease/lib_discover.h"

#include "base/clock.h"
#include "lease/lib_entries.h"
#include "lease/lib_result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    AGAIN_MS = 200,            /* before a lost stream is opened again */
    CHECK_MS = 1000,           /* how often the server is asked whether the entries are current */
    CHECK_ENTRIES_PER_MS = 10, /* the server walks through all of them: less often for many */
    DOUBTS_MAX = 3,            /* checks in a row that differ before all is read again */
    PREFIX_SIZE_MAX = 1024
};

struct lease_directory {
    struct list link;
    struct lease_connection *connection;
    char *prefix;
    char *end; /* behind the last key that begins so; "" and size 1: all keys */
    size_t end_size;
    lease_directory_callback *callback; /* NULL: nobody is told */
    void *context;
    struct lib_entries entries;
    struct lib_call *watch;
    struct lib_asking *reading;
    struct lib_asking *checking;
    uint64_t begin_ms; /* UINT64_MAX: it has begun, or is over */
    uint64_t check_ms; /* when it is checked next; UINT64_MAX: not now */
    bool is_filled;
    bool is_decided; /* it is filled, or over */
    bool is_over;
    bool is_notice_pending;
    enum lease_status status;
    char text[LIB_TEXT_SIZE_MAX];
    int64_t revision; /* as of which the entries are true */
    /* The entries are those of a moment after this one. */
    uint64_t current_ms;
    /* A check that found the server further ahead: current as of then when that has come. */
    int64_t doubt_revision;
    uint64_t doubt_ms; /* 0: none */
    unsigned n_doubts;
};

/* ---- what users are told: that something changed, once for many changes ---- */

struct directory_notice {
    struct lib_notice base;
    struct lease_directory *directory;
    enum lease_status status;
    char text[LIB_TEXT_SIZE_MAX];
};

static void take_notice(struct lib_notice *base) {
    struct directory_notice *notice = (struct directory_notice *)base;
    notice->directory->is_notice_pending = false;
    notice->status = notice->directory->status;
    memcpy(notice->text, notice->directory->text, sizeof notice->text);
}

static void run_notice(struct lib_notice *base) {
    struct directory_notice *notice = (struct directory_notice *)base;
    struct lease_directory *directory = notice->directory;
    directory->callback(directory, notice->status, notice->text, directory->context);
}

static void tell(struct lease_directory *directory) {
    lib_changed(directory->connection);
    if (directory->callback == NULL || directory->is_notice_pending) {
        return;
    }
    struct directory_notice *notice = calloc(1, sizeof *notice);
    if (notice == NULL) {
        abort();
    }
    notice->base.take = take_notice;
    notice->base.run = run_notice;
    notice->directory = directory;
    directory->is_notice_pending = true;
    lib_notice_add(directory->connection, &notice->base, directory);
}

/* ---- its life ---- */

static void stop(struct lease_directory *directory) {
    lib_call_cancel(directory->watch);
    lib_asking_cancel(directory->reading);
    lib_asking_cancel(directory->checking);
    directory->watch = NULL;
    directory->reading = NULL;
    directory->checking = NULL;
    directory->begin_ms = UINT64_MAX;
    directory->check_ms = UINT64_MAX;
    directory->doubt_ms = 0;
    directory->n_doubts = 0;
}

static void fail(struct lease_directory *directory, enum lease_status status, const char *text) {
    stop(directory);
    directory->is_over = true;
    directory->is_decided = true;
    directory->status = status;
    snprintf(directory->text, sizeof directory->text, "%s", text);
    tell(directory);
}

/* All is read again. What is there stays meanwhile, and grows older. */
static void again(struct lease_directory *directory) {
    stop(directory);
    directory->begin_ms = clock_boottime_ms() + AGAIN_MS;
    directory->connection->is_dirty = true;
}

static void ended(struct lease_directory *directory, enum lib_code code, const char *text) {
    bool may_pass = code == LIB_CODE_OK || code == LIB_CODE_UNAVAILABLE ||
                    code == LIB_CODE_DEADLINE_EXCEEDED || code == LIB_CODE_CANCELLED;
    if (may_pass ||
        (code == LIB_CODE_UNAUTHENTICATED && lib_ready_authenticate_again(directory->connection))) {
        again(directory);
    } else if (code == LIB_CODE_UNIMPLEMENTED) {
        fail(directory, LEASE_UNSUPPORTED, "the server does not serve the etcd API");
    } else {
        fail(directory, lib_code_status(code), text);
    }
}

static struct bytes prefix_of(const struct lease_directory *directory) {
    /* All keys: from the first one on. */
    return directory->prefix[0] == '\0' ? bytes_of("", 1) : bytes_from_text(directory->prefix);
}

static void is_current_as_of(struct lease_directory *directory, uint64_t sent_ms) {
    if (sent_ms > directory->current_ms) {
        directory->current_ms = sent_ms;
    }
    directory->doubt_ms = 0;
    directory->n_doubts = 0;
}

/* ---- changes ---- */

static void take_event(void *context, bool is_delete, const struct lib_etcd_key *key) {
    struct lease_directory *directory = context;
    if (directory->is_over) {
        return;
    }
    if (is_delete) {
        lib_entries_remove(&directory->entries, key->key);
    } else if (!lib_entries_put(&directory->entries, key)) {
        fail(directory, LEASE_QUEUE_FULL, "too many keys begin so");
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
        fail(directory, LEASE_PROTOCOL, "the server's answer is malformed");
        return;
    }
    if (directory->is_over) {
        return;
    }
    if (event.is_canceled) {
        again(directory);
    } else if (event.has_events) {
        if (directory->doubt_ms != 0 && directory->revision >= directory->doubt_revision) {
            is_current_as_of(directory, directory->doubt_ms);
        }
        tell(directory);
    }
}

static void on_watch_end(struct lib_call *call, enum lib_code code, const char *text) {
    struct lease_directory *directory = call->context;
    directory->watch = NULL;
    ended(directory, code, text);
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
    directory->watch = lib_call_start(directory->connection, &method,
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
    directory->check_ms = clock_boottime_ms() + (pause_ms > CHECK_MS ? pause_ms : CHECK_MS);
}

static void on_checked(void *context, const struct lib_answer *answer) {
    struct lease_directory *directory = context;
    struct lib_etcd_keys keys;
    struct arena arena;
    int64_t revision = 0;
    directory->checking = NULL;
    if (answer->code != LIB_CODE_OK) {
        ended(directory, answer->code, answer->text);
        return;
    }
    arena_init(&arena);
    if (!lib_etcd_decode_range(&arena, answer->message, &keys, &revision)) {
        fail(directory, LEASE_PROTOCOL, "the server's answer is malformed");
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
    } else if (++directory->n_doubts >= DOUBTS_MAX) {
        again(directory);
    } else if (directory->doubt_ms == 0) {
        directory->doubt_ms = answer->sent_ms;
        directory->doubt_revision = revision;
    }
}

static void check(struct lease_directory *directory) {
    struct lib_request request = read_request(directory, true);
    directory->check_ms = UINT64_MAX;
    directory->checking = lib_ask_start(directory->connection, &request, on_checked, directory);
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
    directory->reading = NULL;
    if (answer->code != LIB_CODE_OK) {
        ended(directory, answer->code, answer->text);
        return;
    }
    arena_init(&arena);
    if (!lib_etcd_decode_range(&arena, answer->message, &keys, &directory->revision)) {
        fail(directory, LEASE_PROTOCOL, "the server's answer is malformed");
    } else if (!take_all(directory, &keys)) {
        fail(directory, LEASE_QUEUE_FULL, "too many keys begin so");
    } else {
        directory->is_filled = true;
        directory->is_decided = true;
        is_current_as_of(directory, answer->sent_ms);
        start_watch(directory);
        set_check(directory);
        tell(directory);
    }
    arena_clear(&arena);
}

static void read_all(struct lease_directory *directory) {
    struct lib_request request = read_request(directory, false);
    directory->begin_ms = UINT64_MAX;
    directory->reading = lib_ask_start(directory->connection, &request, on_read, directory);
}

/* ---- time ---- */

void lib_directories_poll(struct lease_connection *connection, uint64_t now_ms) {
    struct list *all = &connection->directories;
    for (struct list *node = all->next; node != all; node = node->next) {
        struct lease_directory *directory = list_entry(node, struct lease_directory, link);
        if (directory->begin_ms <= now_ms) {
            read_all(directory);
        } else if (directory->check_ms <= now_ms) {
            check(directory);
        }
    }
}

uint64_t lib_directories_wake_ms(const struct lease_connection *connection) {
    uint64_t wake_ms = UINT64_MAX;
    const struct list *all = &connection->directories;
    for (const struct list *node = all->next; node != all; node = node->next) {
        const struct lease_directory *directory = list_entry(node, struct lease_directory, link);
        wake_ms = directory->begin_ms < wake_ms ? directory->begin_ms : wake_ms;
        wake_ms = directory->check_ms < wake_ms ? directory->check_ms : wake_ms;
    }
    return wake_ms;
}

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
    struct lease_directory *directory = calloc(1, sizeof *directory);
    char *own = strdup(prefix);
    if (directory == NULL || own == NULL) {
        abort();
    }
    directory->connection = connection;
    directory->prefix = own;
    directory->callback = callback;
    directory->context = context;
    directory->check_ms = UINT64_MAX;
    set_end(directory);
    *out_directory = directory;
    lib_lock(connection);
    list_append(&connection->directories, &directory->link);
    lib_step(connection);
    lib_unlock(connection);
    return LEASE_OK;
}

/* With the mutex held. */
static enum lease_status status_of(const struct lease_directory *directory) {
    if (directory->is_over) {
        return lib_error(directory->status, "%s", directory->text);
    }
    return directory->is_filled ? LEASE_OK
                                : lib_error(LEASE_UNAVAILABLE, "no server has answered yet");
}

enum lease_status lease_directory_wait(struct lease_directory *directory, int64_t limit_ms) {
    struct lease_connection *connection = directory->connection;
    lib_lock(connection);
    enum lease_status status = directory->is_decided ? LEASE_OK : lib_may_wait(connection);
    if (status == LEASE_OK && limit_ms != LEASE_NO_WAIT) {
        lib_wait_until(connection, &directory->is_decided,
                       limit_ms > 0 ? clock_boottime_ms() + (uint64_t)limit_ms : 0);
    }
    if (status == LEASE_OK && !directory->is_decided) {
        status = lib_error(LEASE_TIMEOUT, "no server has answered in time");
    } else if (status == LEASE_OK) {
        status = status_of(directory);
    }
    lib_unlock(connection);
    return status;
}

/* With the mutex held. */
static int64_t age_of(const struct lease_directory *directory) {
    return directory->is_filled ? (int64_t)(clock_boottime_ms() - directory->current_ms) : -1;
}

enum lease_status lease_directory_entries(struct lease_directory *directory,
                                          const struct lease_entry_list **out_list) {
    struct lease_connection *connection = directory->connection;
    lib_lock(connection);
    enum lease_status status = directory->is_filled ? LEASE_OK : status_of(directory);
    if (status == LEASE_OK) {
        struct lib_result *result = lib_result_create(sizeof(struct lease_entry_list));
        struct lease_entry_list *list = lib_result_value(result);
        list->items = lib_entries_copy(&directory->entries, lib_result_arena(result));
        list->n_items = directory->entries.n;
        list->revision = directory->revision;
        list->age_ms = age_of(directory);
        *out_list = list;
    }
    lib_unlock(connection);
    return status;
}

int64_t lease_directory_age_ms(struct lease_directory *directory) {
    lib_lock(directory->connection);
    int64_t age_ms = age_of(directory);
    lib_unlock(directory->connection);
    return age_ms;
}

void lease_directory_destroy(struct lease_directory *directory) {
    if (directory == NULL) {
        return;
    }
    struct lease_connection *connection = directory->connection;
    lib_lock(connection);
    stop(directory);
    directory->is_over = true;
    list_remove(&directory->link);
    lib_notice_forget(connection, directory);
    lib_step(connection);
    lib_unlock(connection);
    lib_entries_clear(&directory->entries);
    free(directory->prefix);
    free(directory->end);
    free(directory);
}
