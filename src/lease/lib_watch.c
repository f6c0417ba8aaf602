#include "lease/lib_watch.h"

#include "base/arena.h"
#include "base/clock.h"
#include "lease/lib_etcd_look.h"
#include "lease/lib_message.h"
#include "lease/lib_read.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    AGAIN_MS = 200, /* before a lost stream is opened again */
    PENDING_MAX =
        1000, /* changes that wait for a slow callback; then the stream is closed for a while */
    PENDING_LOW = 100,
    NAME_SIZE_MAX = 256
};

struct lease_watch {
    struct list link;
    struct lease_connection *connection;
    char *name;
    lease_resource_callback *on_resource; /* NULL: changes are watched */
    lease_change_callback *on_change;
    void *context;
    struct lib_call *call;
    struct lib_asking *asking; /* etcd: the state is being read */
    uint64_t begin_ms;         /* UINT64_MAX: it has begun, or is over */
    bool is_over;
    bool is_paused;
    size_t n_pending;
    int64_t revision; /* of the last change */
    size_t n_of_it;   /* changes of that revision that were told */
    size_t n_skipped; /* of a stream that was opened again: told before */
};

/* ---- notices ---- */

struct watch_notice {
    struct lib_notice base;
    struct lease_watch *watch;
    struct arena arena;
    enum lease_status status;
    bool has_news;
    struct lease_resource resource;
    struct lease_change change;
    char text[LIB_TEXT_SIZE_MAX];
};

static void run_notice(struct lib_notice *base) {
    struct watch_notice *notice = (struct watch_notice *)base;
    struct lease_watch *watch = notice->watch;
    if (watch->on_resource != NULL) {
        watch->on_resource(notice->has_news ? &notice->resource : NULL, notice->status,
                           notice->text, watch->context);
    } else {
        watch->on_change(notice->has_news ? &notice->change : NULL, notice->status, notice->text,
                         watch->context);
    }
}

static void take_notice(struct lib_notice *base) {
    struct lease_watch *watch = ((struct watch_notice *)base)->watch;
    watch->n_pending--;
    if (watch->is_paused && watch->n_pending <= PENDING_LOW) {
        watch->is_paused = false;
        watch->begin_ms = 0;
        watch->connection->is_dirty = true;
    }
}

static void clear_notice(struct lib_notice *base) {
    arena_clear(&((struct watch_notice *)base)->arena);
}

static struct watch_notice *make_notice(struct lease_watch *watch) {
    struct watch_notice *notice = calloc(1, sizeof *notice);
    if (notice == NULL) {
        abort();
    }
    arena_init(&notice->arena);
    notice->base.run = run_notice;
    notice->base.take = take_notice;
    notice->base.clear = clear_notice;
    notice->watch = watch;
    return notice;
}

static void add_notice(struct watch_notice *notice) {
    notice->watch->n_pending++;
    lib_notice_add(notice->watch->connection, &notice->base, notice->watch);
}

/* States that were not told yet are older ones. */
static void forget_states(struct lease_watch *watch) {
    struct list *notices = &watch->connection->notices;
    struct list *next;
    for (struct list *node = notices->next; node != notices; node = next) {
        next = node->next;
        struct lib_notice *notice = list_entry(node, struct lib_notice, link);
        if (notice->object == watch) {
            lib_notice_drop(notice);
        }
    }
}

static void stop(struct lease_watch *watch) {
    lib_call_cancel(watch->call);
    watch->call = NULL;
    lib_asking_cancel(watch->asking);
    watch->asking = NULL;
    watch->begin_ms = UINT64_MAX;
}

static void fail(struct lease_watch *watch, enum lease_status status, const char *text) {
    stop(watch);
    watch->is_over = true;
    struct watch_notice *notice = make_notice(watch);
    notice->status = status;
    snprintf(notice->text, sizeof notice->text, "%s", text);
    add_notice(notice);
}

static void again(struct lease_watch *watch) {
    watch->begin_ms = clock_boottime_ms() + AGAIN_MS;
}

/* How a stream that ended goes on. */
static void ended(struct lease_watch *watch, enum lib_code code, const char *text) {
    switch (code) {
    case LIB_CODE_OK:
    case LIB_CODE_UNAVAILABLE:
    case LIB_CODE_DEADLINE_EXCEEDED:
        again(watch);
        break;
    case LIB_CODE_UNAUTHENTICATED:
        if (lib_ready_authenticate_again(watch->connection)) {
            again(watch);
            break;
        }
        fail(watch, LEASE_DENIED, text);
        break;
    case LIB_CODE_UNIMPLEMENTED:
        if (watch->connection->protocol == LEASE_PROTOCOL_ETCD && watch->on_resource != NULL) {
            watch->begin_ms = 0; /* now it is known what the server speaks */
            watch->connection->is_dirty = true;
            break;
        }
        fail(watch, LEASE_UNSUPPORTED,
             watch->connection->protocol == LEASE_PROTOCOL_ETCD
                 ? "etcd does not tell what happened to locks"
                 : text);
        break;
    default:
        fail(watch, lib_code_status(code), text);
    }
}

/* ---- leased.v1 ---- */

static bool read_observed(struct watch_notice *notice, struct bytes message) {
    struct pb_reader reader;
    bool is_well = true;
    int64_t revision = 0;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            is_well &= lib_read_header(pb_reader_bytes(&reader), &revision);
        } else if (reader.field == 2) {
            is_well &=
                lib_read_resource(&notice->arena, pb_reader_bytes(&reader), &notice->resource);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (notice->resource.name == NULL || notice->resource.name[0] == '\0') {
        notice->resource.name = lib_read_text(&notice->arena, bytes_from_text(notice->watch->name));
    }
    notice->resource.revision = revision;
    return is_well && !reader.failed;
}

static bool read_change(struct watch_notice *notice, struct bytes message) {
    struct lease_change *change = &notice->change;
    struct pb_reader reader;
    bool is_well = true;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        struct lease_acquisition *acquisition;
        struct lease_ended *end;
        switch (reader.field) {
        case 1:
            is_well &= lib_read_header(pb_reader_bytes(&reader), &change->revision);
            break;
        case 2:
            change->type = (enum lease_change_type)pb_reader_enum(&reader);
            break;
        case 3:
            change->acquisition = acquisition = arena_alloc(&notice->arena, sizeof *acquisition);
            is_well &= lib_read_acquisition(&notice->arena, pb_reader_bytes(&reader), acquisition);
            break;
        case 4:
            change->ended = end = arena_alloc(&notice->arena, sizeof *end);
            is_well &= lib_read_ended(&notice->arena, pb_reader_bytes(&reader), end);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    return is_well && !reader.failed;
}

/* False: it was told before the stream was lost. */
static bool count_if_new(struct lease_watch *watch, int64_t revision) {
    if (revision == watch->revision && watch->n_skipped > 0) {
        watch->n_skipped--;
        return false;
    }
    watch->n_skipped = 0;
    if (revision != watch->revision) {
        watch->revision = revision;
        watch->n_of_it = 0;
    }
    watch->n_of_it++;
    return true;
}

static void pause_if_slow(struct lease_watch *watch) {
    if (watch->n_pending >= PENDING_MAX) {
        stop(watch);
        watch->is_paused = true;
    }
}

static void on_message(struct lib_call *call, struct bytes message) {
    struct lease_watch *watch = call->context;
    struct watch_notice *notice = make_notice(watch);
    bool is_state = watch->on_resource != NULL;
    notice->has_news = true;
    if (is_state ? !read_observed(notice, message) : !read_change(notice, message)) {
        arena_clear(&notice->arena);
        free(notice);
        fail(watch, LEASE_PROTOCOL, "the server's answer is malformed");
    } else if (is_state) {
        forget_states(watch);
        add_notice(notice);
    } else if (count_if_new(watch, notice->change.revision)) {
        add_notice(notice);
        pause_if_slow(watch);
    } else {
        arena_clear(&notice->arena);
        free(notice);
    }
}

static void on_end(struct lib_call *call, enum lib_code code, const char *text) {
    struct lease_watch *watch = call->context;
    watch->call = NULL;
    ended(watch, code, text);
}

static void begin_native(struct lease_watch *watch) {
    static const struct lib_method observe = {
        .path = "/leased.v1.Resources/Observe",
        .on_message = on_message,
        .on_end = on_end,
    };
    static const struct lib_method events = {
        .path = "/leased.v1.History/Events",
        .on_message = on_message,
        .on_end = on_end,
    };
    struct buffer message;
    buffer_init(&message);
    lib_put_text(&message, 1, watch->name);
    if (watch->on_change != NULL) {
        lib_put_int(&message, 2, watch->revision);
        watch->n_skipped = watch->n_of_it;
    }
    watch->call = lib_call_start(watch->connection, watch->on_change != NULL ? &events : &observe,
                                 bytes_of(message.data, message.size), watch, 0);
    buffer_clear(&message);
}

/* ---- etcd: the state is read, and read again whenever a key under the name changed ---- */

static void read_state(struct lease_watch *watch);

static void on_etcd_message(struct lib_call *call, struct bytes message) {
    struct lease_watch *watch = call->context;
    struct lib_etcd_event event;
    if (!lib_etcd_decode_watch(message, &event)) {
        fail(watch, LEASE_PROTOCOL, "the server's answer is malformed");
    } else if (event.has_events) {
        lib_call_cancel(watch->call);
        watch->call = NULL;
        read_state(watch);
    } else if (event.is_canceled) {
        stop(watch);
        again(watch); /* the next one may be, too */
    }
}

static void watch_etcd(struct lease_watch *watch, int64_t revision) {
    static const struct lib_method method = {
        .path = "/etcdserverpb.Watch/Watch",
        .is_stream = true,
        .on_message = on_etcd_message,
        .on_end = on_end,
    };
    struct buffer message;
    buffer_init(&message);
    lib_etcd_look_encode_watch(watch->name, revision + 1, &message);
    watch->call =
        lib_call_start(watch->connection, &method, bytes_of(message.data, message.size), watch, 0);
    buffer_clear(&message);
}

static void on_state(void *context, const struct lib_answer *answer) {
    struct lease_watch *watch = context;
    watch->asking = NULL;
    if (answer->code != LIB_CODE_OK) {
        ended(watch, answer->code, answer->text);
        return;
    }
    struct watch_notice *notice = make_notice(watch);
    notice->has_news = true;
    if (!lib_etcd_look_decode(&notice->arena, answer->message, watch->name, &notice->resource)) {
        arena_clear(&notice->arena);
        free(notice);
        fail(watch, LEASE_PROTOCOL, "the server's answer is malformed");
        return;
    }
    watch_etcd(watch, notice->resource.revision);
    forget_states(watch);
    add_notice(notice);
}

static void read_state(struct lease_watch *watch) {
    struct lib_request request;
    lib_etcd_look_encode(watch->name, 1, &request);
    watch->asking = lib_ask_start(watch->connection, &request, on_state, watch);
}

/* ---- time ---- */

void lib_watches_poll(struct lease_connection *connection, uint64_t now_ms) {
    struct list *watches = &connection->watches;
    for (struct list *node = watches->next; node != watches; node = node->next) {
        struct lease_watch *watch = list_entry(node, struct lease_watch, link);
        if (watch->begin_ms > now_ms) {
            continue;
        }
        watch->begin_ms = UINT64_MAX;
        if (connection->protocol == LEASE_PROTOCOL_ETCD && watch->on_resource != NULL) {
            read_state(watch);
        } else if (connection->protocol == LEASE_PROTOCOL_ETCD) {
            fail(watch, LEASE_UNSUPPORTED, "etcd does not tell what happened to locks");
        } else {
            begin_native(watch);
        }
    }
}

uint64_t lib_watches_wake_ms(const struct lease_connection *connection) {
    uint64_t wake_ms = UINT64_MAX;
    const struct list *watches = &connection->watches;
    for (const struct list *node = watches->next; node != watches; node = node->next) {
        const struct lease_watch *watch = list_entry(node, struct lease_watch, link);
        wake_ms = watch->begin_ms < wake_ms ? watch->begin_ms : wake_ms;
    }
    return wake_ms;
}

/* ---- what users call ---- */

static void start(struct lease_watch *watch, struct lease_connection *connection,
                  const char *name) {
    watch->connection = connection;
    watch->name = strdup(name);
    if (watch->name == NULL) {
        abort();
    }
    lib_lock(connection);
    list_append(&connection->watches, &watch->link);
    lib_step(connection);
    lib_unlock(connection);
}

enum lease_status lease_observe(struct lease_connection *connection, const char *resource,
                                lease_resource_callback *callback, void *context,
                                struct lease_watch **out_watch) {
    if (callback == NULL || resource == NULL || resource[0] == '\0' ||
        strlen(resource) > NAME_SIZE_MAX) {
        return lib_error(LEASE_INVALID, "a callback, and a name of 1 to %d bytes, are needed",
                         NAME_SIZE_MAX);
    }
    enum lease_status status = lib_check_process(connection);
    if (status != LEASE_OK) {
        return status;
    }
    struct lease_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL) {
        abort();
    }
    watch->on_resource = callback;
    watch->context = context;
    *out_watch = watch;
    start(watch, connection, resource);
    return LEASE_OK;
}

enum lease_status lease_watch_changes(struct lease_connection *connection, const char *prefix,
                                      int64_t start_revision, lease_change_callback *callback,
                                      void *context, struct lease_watch **out_watch) {
    if (callback == NULL || start_revision < 0 ||
        (prefix != NULL && strlen(prefix) > NAME_SIZE_MAX)) {
        return lib_error(LEASE_INVALID, "a callback is needed, and a prefix of at most %d bytes",
                         NAME_SIZE_MAX);
    }
    enum lease_status status = lib_check_process(connection);
    if (status != LEASE_OK) {
        return status;
    }
    struct lease_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL) {
        abort();
    }
    watch->on_change = callback;
    watch->context = context;
    watch->revision = start_revision;
    *out_watch = watch;
    start(watch, connection, prefix == NULL ? "" : prefix);
    return LEASE_OK;
}

void lease_watch_destroy(struct lease_watch *watch) {
    if (watch == NULL || lib_is_inherited(watch->connection)) {
        return;
    }
    struct lease_connection *connection = watch->connection;
    lib_lock(connection);
    stop(watch);
    watch->is_paused = false;
    watch->is_over = true;
    list_remove(&watch->link);
    lib_notice_forget(connection, watch);
    lib_step(connection);
    lib_unlock(connection);
    free(watch->name);
    free(watch);
}
