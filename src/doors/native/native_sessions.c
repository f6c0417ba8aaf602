/* The Sessions service but for its stream of renewals (native_renew.c). */
#include "base/pb_append.h"
#include "core/auth.h"
#include "doors/native/native_call.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_request.h"
#include "doors/native/native_show.h"

#include <assert.h>
#include <stdlib.h>

enum {
    /* Sessions that one list looks at, whoever owns them; the next request goes on. */
    SESSIONS_LOOKED_AT_MAX = 16 * 1024
};

static const struct caller *caller_of(const struct grpc_call *call) {
    return grpc_call_caller(call);
}

/* --- Create, Change, End. --- */

static void reply_created(struct leased_v1_call *waiting, const struct outcome *outcome) {
    struct native_door *door = native_door_of(waiting->call);
    struct native_session_created created;
    struct native_session_facts facts;
    bool is_readable = native_session_created_decode(outcome->rule.answer, &created);
    assert(is_readable);
    door->stats.sessions_created++;
    struct buffer *out = native_answer_begin_at(door, outcome->revision);
    if (native_find_session(door, created.id, &facts)) {
        native_show_session(out, 2, &facts, facts.ttl_ms);
    }
    arena_reset(&door->arena);
    leased_v1_answer_finish(waiting->call, out);
}

static void on_create(struct grpc_call *call, struct bytes message) {
    struct native_session_create create;
    char address[GRPC_ADDRESS_SIZE];
    grpc_call_address(call, address);
    const struct leased_v1_error *error =
        native_request_create(message, bytes_from_text(address), &create);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    struct buffer request;
    buffer_init(&request);
    native_session_create_encode(&request, &create);
    (void)native_call_run(call, NATIVE_RULE_SESSION_CREATE, &request, reply_created);
    buffer_clear(&request);
}

static void reply_changed(struct leased_v1_call *waiting, const struct outcome *outcome) {
    struct buffer *out = native_answer_begin_at(native_door_of(waiting->call), outcome->revision);
    pb_append_int64(out, 2, waiting->number);
    leased_v1_answer_finish(waiting->call, out);
}

static void on_change(struct grpc_call *call, struct bytes message) {
    struct native_session_change change;
    const struct leased_v1_error *error = native_request_change(message, &change);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    struct buffer request;
    buffer_init(&request);
    native_session_change_encode(&request, &change);
    struct leased_v1_call *waiting =
        native_call_run(call, NATIVE_RULE_SESSION_CHANGE, &request, reply_changed);
    if (waiting != NULL) {
        waiting->number = change.ttl_ms;
    }
    buffer_clear(&request);
}

static void reply_ended(struct leased_v1_call *waiting, const struct outcome *outcome) {
    leased_v1_answer_finish(
        waiting->call, native_answer_begin_at(native_door_of(waiting->call), outcome->revision));
}

/* A user that ends what another one has created revokes it. */
static bool is_of_others(struct native_door *door, const struct caller *caller, int64_t id) {
    struct native_session_facts facts;
    bool is_found = native_find_session(door, id, &facts);
    arena_reset(&door->arena);
    return is_found && auth_is_enabled(state_view_auth(service_view(door->service))) &&
           facts.session.user_id != caller->user_id;
}

static void on_end(struct grpc_call *call, struct bytes message) {
    struct native_session_end end;
    const struct leased_v1_error *error = native_request_end(message, &end);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    end.is_revoked |= is_of_others(native_door_of(call), caller_of(call), end.session_id);
    struct buffer request;
    buffer_init(&request);
    native_session_end_encode(&request, &end);
    (void)native_call_run(call, NATIVE_RULE_SESSION_END, &request, reply_ended);
    buffer_clear(&request);
}

/* --- Get. --- */

static int by_number(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* What a session has and waits for, by age: the keys of its lease are in no order. */
static void show_acquisitions_of(struct native_door *door, const struct caller *caller,
                                 int64_t session_id, struct buffer *out, uint32_t field) {
    const struct lease_table *leases = native_leases(door);
    size_t n_keys = lease_table_key_count(leases, session_id);
    int64_t *ids = arena_calloc(&door->arena, n_keys, sizeof ids[0]);
    size_t n = 0;
    for (const struct record *record = lease_table_first_key(leases, session_id); record != NULL;
         record = record->lease_next) {
        struct native_key key = native_key_read(record);
        if (key.kind == NATIVE_KEY_ACQUISITION) {
            ids[n++] = key.id;
        }
    }
    assert(n <= n_keys);
    qsort(ids, n, sizeof ids[0], by_number);
    native_show_acquisitions(out, field, door, caller, ids, n);
}

static void answer_get(struct grpc_call *call, struct bytes message,
                       const struct native_id_list *list, const int64_t *remaining_ms) {
    struct native_door *door = native_door_of(call);
    struct native_session_facts facts;
    (void)message;
    if (!native_find_session(door, list->ids[0], &facts)) {
        arena_reset(&door->arena);
        leased_v1_error_finish(call, &native_error_session_lost);
        return;
    }
    struct buffer *out = native_answer_begin(door);
    native_show_session(out, 2, &facts, remaining_ms[0]);
    show_acquisitions_of(door, caller_of(call), facts.id, out, 3);
    arena_reset(&door->arena);
    leased_v1_answer_finish(call, out);
}

static void read_get(struct grpc_call *call, struct bytes message) {
    int64_t id = 0;
    const struct leased_v1_error *error = native_request_id(message, &id);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    const struct native_id_list list = {.ids = &id, .n = 1};
    native_call_ask_times(call, message, &list, answer_get);
}

static void on_get(struct grpc_call *call, struct bytes message) {
    native_call_read(call, message, NULL, 0, read_get);
}

/* --- List. --- */

struct session_search {
    struct native_id_list list;
    struct bytes owner_prefix;
    size_t limit;
    size_t n_looked_at;
};

static bool has_prefix(struct bytes text, struct bytes prefix) {
    return text.size >= prefix.size && bytes_equal(bytes_of(text.data, prefix.size), prefix);
}

static bool look_at_session(void *context, const struct record *record) {
    struct session_search *search = context;
    struct native_session session;
    if (search->list.n == search->limit || search->n_looked_at == SESSIONS_LOOKED_AT_MAX) {
        search->list.has_more = true;
        return false;
    }
    search->n_looked_at++;
    int64_t id = native_key_read(record).id;
    search->list.next_id = id;
    if (native_session_decode(record_value(record), &session) &&
        has_prefix(session.owner, search->owner_prefix)) {
        search->list.ids[search->list.n++] = id;
    }
    return true;
}

static void answer_list(struct grpc_call *call, struct bytes message,
                        const struct native_id_list *list, const int64_t *remaining_ms) {
    struct native_door *door = native_door_of(call);
    struct native_list_request request;
    const struct leased_v1_error *error = native_request_list_sessions(message, &request);
    assert(error == NULL);
    struct buffer *out = native_answer_begin(door);
    bool has_more = list->has_more;
    int64_t next_id = list->next_id;
    size_t i = 0;
    for (; i < list->n && out->size < NATIVE_ANSWER_SIZE; i++) {
        struct native_session_facts facts;
        if (native_find_session(door, list->ids[i], &facts)) {
            native_show_session(out, 2, &facts, remaining_ms != NULL ? remaining_ms[i] : -1);
            if (request.with_acquisitions) {
                show_acquisitions_of(door, caller_of(call), facts.id, out, 3);
            }
        }
        arena_reset(&door->arena);
    }
    if (i < list->n) {
        has_more = true;
        next_id = list->ids[i - 1];
    }
    pb_append_bool(out, 4, has_more);
    pb_append_int64(out, 5, has_more ? next_id : 0);
    leased_v1_answer_finish(call, out);
}

static void read_list(struct grpc_call *call, struct bytes message) {
    struct native_door *door = native_door_of(call);
    struct native_list_request request;
    int64_t ids[NATIVE_LIST_MAX];
    const struct leased_v1_error *error = native_request_list_sessions(message, &request);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    struct session_search search = {
        .list = {.ids = ids}, .owner_prefix = request.prefix, .limit = request.limit};
    struct key_range range = native_records('s');
    if (request.after_id != 0) {
        range.key = native_key_session(&door->arena, request.after_id + 1);
    }
    if (!service_allow_work(door->service, SESSIONS_LOOKED_AT_MAX)) {
        leased_v1_error_finish(call, native_error_of(STATUS_TOO_MANY_REQUESTS));
        return;
    }
    if (request.after_id != INT64_MAX) {
        key_store_visit(native_keys(door), range.space, range.key, range.range_end, look_at_session,
                        &search);
    }
    arena_reset(&door->arena);
    if (request.with_remaining) {
        native_call_ask_times(call, message, &search.list, answer_list);
    } else {
        answer_list(call, message, &search.list, NULL);
    }
}

static void on_list(struct grpc_call *call, struct bytes message) {
    native_call_read(call, message, NULL, 0, read_list);
}

#define METHOD(name, handler)                                                                      \
    {                                                                                              \
        .path = "/leased.v1.Sessions/" name, .answers_refused = true, .kind = GRPC_UNARY,          \
        .on_message = handler, .on_close = leased_v1_call_closed                                   \
    }

static const struct grpc_method methods[] = {
    METHOD("Create", on_create), METHOD("Change", on_change), METHOD("End", on_end),
    METHOD("Get", on_get),       METHOD("List", on_list),
};
const struct native_methods native_session_methods = {methods, sizeof methods / sizeof methods[0]};
