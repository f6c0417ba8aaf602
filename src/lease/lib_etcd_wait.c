/*
 * Locks and elections in the words of etcd, as its client libraries do them: a key under the name,
 * attached to the lease of a session. The oldest key has it; each of the others waits for the one
 * before it. The key's create revision is the token.
 *
 * Every wait has a key of its own. What is found under it when it is asked for again was made by
 * this wait, and whatever deletes it takes nothing from another one, in whatever order a server
 * meets the two.
 */
#include "lease/lib_etcd_late.h"
#include "lease/lib_etcd_wire.h"
#include "lease/lib_wait.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POSITION_MAX = 1024, KEY_SIZE_MAX = 256 + 1 + 16 + 1 + LIB_REQUEST_ID_SIZE };

struct lib_etcd_wait {
    struct lease_connection *connection;
    struct lease_wait *wait; /* NULL: it has gone, and this goes when its place is known */
    int64_t session_id;
    char prefix[KEY_SIZE_MAX];
    char prefix_end[KEY_SIZE_MAX];
    char key[KEY_SIZE_MAX];
    struct lib_asking *asking;
    struct lib_call *watch;
    bool is_placing;       /* a place is being asked for */
    bool is_after_release; /* the queue was asked for while something was being given back */
    bool has_asked;        /* a place was asked for, at least once */
    bool is_in_doubt;      /* one that was asked for may be made later */
    bool is_refused;       /* it is being given up because it would wait for itself */
    int64_t revision;      /* in which the key was made; 0: not known */
};

static void check(struct lib_etcd_wait *etcd);

void lib_etcd_wait_free(struct lib_etcd_wait *etcd) {
    if (etcd != NULL) {
        assert(etcd->asking == NULL);
        assert(etcd->watch == NULL);
        free(etcd);
    }
}

static void ask_for_removal(struct lib_etcd_wait *etcd, lib_answered *done) {
    struct lib_request request;
    lib_etcd_encode_removal(etcd->key, &request);
    etcd->asking = lib_ask_start(etcd->connection, &request, done, etcd);
}

/* Nobody waits for it. */
static void remove_key(struct lib_etcd_wait *etcd) {
    struct lib_request request;
    lib_etcd_encode_removal(etcd->key, &request);
    lib_farewell(etcd->connection, &request, etcd->session_id);
    if (etcd->is_in_doubt) {
        lib_etcd_late_add(etcd->connection, etcd->session_id, etcd->key);
    }
}

/* Whatever it fails for, its place does not stay: what was refused may have been carried out, as by
 * etcd when its quota is exceeded. */
static void fail(struct lib_etcd_wait *etcd, enum lease_status status, const char *text) {
    lib_etcd_wait_leave(etcd->wait);
    lib_wait_fail(etcd->wait, status, text);
}

/* A request that did not succeed. */
static void refused(struct lib_etcd_wait *etcd, const struct lib_answer *answer) {
    switch (answer->code) {
    case LIB_CODE_UNAVAILABLE:
    case LIB_CODE_DEADLINE_EXCEEDED:
        lib_wait_again(etcd->wait);
        break;
    case LIB_CODE_NOT_FOUND:
        fail(etcd, LEASE_LOST, "the session has ended");
        break;
    default:
        fail(etcd, lib_code_status(answer->code), answer->text);
    }
}

/* ---- the one before it ---- */

static void stop_watch(struct lib_etcd_wait *etcd) {
    lib_call_cancel(etcd->watch);
    etcd->watch = NULL;
}

static void on_watch_message(struct lib_call *call, struct bytes message) {
    struct lib_etcd_wait *etcd = call->context;
    struct lib_etcd_event event;
    if (!lib_etcd_decode_watch(message, &event)) {
        fail(etcd, LEASE_PROTOCOL, "the server's answer is malformed");
    } else if (event.has_delete) {
        stop_watch(etcd);
        check(etcd);
    } else if (event.is_canceled) {
        stop_watch(etcd);
        lib_wait_again(etcd->wait); /* the next one may be, too */
    }
}

static void on_watch_end(struct lib_call *call, enum lib_code code, const char *text) {
    struct lib_etcd_wait *etcd = call->context;
    (void)code;
    (void)text;
    etcd->watch = NULL;
    lib_wait_again(etcd->wait);
}

static void watch_before(struct lib_etcd_wait *etcd, struct bytes key, int64_t revision) {
    static const struct lib_method method = {
        .path = "/etcdserverpb.Watch/Watch",
        .is_stream = true,
        .on_message = on_watch_message,
        .on_end = on_watch_end,
    };
    struct buffer message;
    buffer_init(&message);
    lib_etcd_encode_watch(key, bytes_of(NULL, 0), revision + 1, true, &message);
    etcd->watch =
        lib_call_start(etcd->connection, &method, bytes_of(message.data, message.size), etcd, 0);
    buffer_clear(&message);
}

/* ---- is it its turn? ---- */

static void succeed(struct lib_etcd_wait *etcd) {
    struct lease_wait *wait = etcd->wait;
    struct arena arena;
    arena_init(&arena);
    struct lease_want *want = arena_copy(&arena, wait->wants, sizeof *want);
    want->resource = arena_copy(&arena, want->resource, strlen(want->resource) + 1);
    const char *value = wait->value == NULL ? "" : wait->value;
    const struct lease_acquisition acquisition = {
        .id = etcd->revision,
        .session_id = wait->session->id,
        .stage = LEASE_STAGE_ACQUIRED,
        .token = etcd->revision,
        .wants = want,
        .n_wants = 1,
        .value = arena_copy(&arena, value, strlen(value) + 1),
        .owner = "",
        .request_id = "",
    };
    const struct lib_etcd_place place = {
        .key = arena_copy(&arena, etcd->key, strlen(etcd->key) + 1),
        .is_in_doubt = etcd->is_in_doubt,
    };
    lib_wait_succeed(wait, &arena, &acquisition, place, UINT64_MAX);
    arena_clear(&arena);
}

/* The place was given up: now the wait ends as was decided. */
static void on_given_up(void *context, const struct lib_answer *answer) {
    struct lib_etcd_wait *etcd = context;
    etcd->asking = NULL;
    /* Then the library goes on giving it up. */
    etcd->has_asked = answer->code != LIB_CODE_OK || etcd->is_in_doubt;
    if (etcd->is_refused) {
        fail(etcd, LEASE_REFUSED, "this session has it, or waits for it, already");
    } else {
        fail(etcd, LEASE_BUSY, "somebody else has it");
    }
}

/* It would wait for itself. */
static bool is_behind_itself(const struct lib_etcd_wait *etcd,
                             const struct lib_etcd_outcome *outcome) {
    return outcome->ranges[1].items[0].lease == etcd->session_id ||
           (outcome->ranges[2].n_items > 0 &&
            outcome->ranges[2].items[0].lease == etcd->session_id);
}

static void tell(struct lib_etcd_wait *etcd, const struct lib_etcd_outcome *outcome) {
    struct lease_acquisition holder = {
        .stage = LEASE_STAGE_ACQUIRED, .value = "", .owner = "", .request_id = ""};
    struct lease_progress progress = {
        .position = (uint32_t)outcome->ranges[1].n_items,
        .holders = &holder,
        .holder_remaining_ms = -1,
    };
    if (outcome->ranges[2].n_items > 0) {
        const struct lib_etcd_key *first = &outcome->ranges[2].items[0];
        holder.id = holder.token = first->create_revision;
        holder.session_id = first->lease;
        progress.n_holders = 1;
    }
    lib_wait_tell(etcd->wait, &progress);
}

static void decide(struct lib_etcd_wait *etcd, const struct lib_etcd_outcome *outcome) {
    const struct lib_etcd_keys *own = &outcome->ranges[0];
    const struct lib_etcd_keys *before = &outcome->ranges[1];
    if (own->n_items == 0 || own->items[0].create_revision != etcd->revision) {
        fail(etcd, LEASE_LOST,
             "the place in the queue is gone: the session has ended, or somebody "
             "deleted its key");
    } else if (before->n_items == 0) {
        succeed(etcd);
    } else if (is_behind_itself(etcd, outcome)) {
        if (etcd->is_after_release) {
            lib_wait_again(etcd->wait); /* it may be what is being given back */
        } else {
            etcd->is_refused = true;
            ask_for_removal(etcd, on_given_up);
        }
    } else if (!etcd->wait->waits) {
        ask_for_removal(etcd, on_given_up);
    } else {
        watch_before(etcd, before->items[0].key, outcome->revision);
        tell(etcd, outcome);
    }
}

static void on_checked(void *context, const struct lib_answer *answer) {
    struct lib_etcd_wait *etcd = context;
    struct arena arena;
    struct lib_etcd_outcome outcome;
    etcd->asking = NULL;
    if (answer->code != LIB_CODE_OK) {
        refused(etcd, answer);
        return;
    }
    arena_init(&arena);
    if (lib_etcd_decode_txn(&arena, answer->message, &outcome) && outcome.n_responses == 3) {
        decide(etcd, &outcome);
    } else {
        fail(etcd, LEASE_PROTOCOL, "the server's answer is malformed");
    }
    arena_clear(&arena);
}

static void check(struct lib_etcd_wait *etcd) {
    struct lib_etcd_txn txn = {0};
    struct lib_request request;
    const struct lib_etcd_range own = {.key = bytes_from_text(etcd->key)};
    const struct lib_etcd_range before = {
        .key = bytes_from_text(etcd->prefix),
        .end = bytes_from_text(etcd->prefix_end),
        .order = LIB_ETCD_SORT_DESCEND,
        .limit = etcd->wait->on_progress != NULL ? POSITION_MAX : 1,
        .keys_only = true,
        .create_revision_max = etcd->revision - 1,
    };
    const struct lib_etcd_range first = {
        .key = before.key, .end = before.end, .order = LIB_ETCD_SORT_ASCEND, .limit = 1};
    lib_etcd_txn_range(&txn, LIB_ETCD_THEN, &own);
    lib_etcd_txn_range(&txn, LIB_ETCD_THEN, &before);
    lib_etcd_txn_range(&txn, LIB_ETCD_THEN, &first);
    lib_etcd_txn_finish(&txn, true, &request);
    etcd->is_after_release = etcd->connection->n_farewells > 0;
    etcd->asking = lib_ask_start(etcd->connection, &request, on_checked, etcd);
}

/* ---- a place in the queue ---- */

static bool take_place(struct lib_etcd_wait *etcd, struct bytes message) {
    struct arena arena;
    struct lib_etcd_outcome outcome;
    arena_init(&arena);
    bool is_well = lib_etcd_decode_txn(&arena, message, &outcome);
    if (is_well && outcome.succeeded) {
        etcd->revision = outcome.revision;
    } else if (is_well && outcome.n_responses == 1 && outcome.ranges[0].n_items == 1) {
        etcd->revision = outcome.ranges[0].items[0].create_revision;
    } else {
        is_well = false;
    }
    arena_clear(&arena);
    return is_well && etcd->revision > 0;
}

/* It left, and nobody knows what became of it. */
static bool is_lost(const struct lib_answer *answer) {
    return answer->sent_ms != 0 &&
           (answer->code == LIB_CODE_UNAVAILABLE || answer->code == LIB_CODE_DEADLINE_EXCEEDED ||
            answer->code == LIB_CODE_CANCELLED || answer->code == LIB_CODE_UNKNOWN ||
            answer->code == LIB_CODE_INTERNAL);
}

static void on_placed(void *context, const struct lib_answer *answer) {
    struct lib_etcd_wait *etcd = context;
    etcd->asking = NULL;
    etcd->is_placing = false;
    etcd->is_in_doubt |= is_lost(answer);
    if (etcd->wait == NULL) {
        /* Nobody waits any more, and only now is it certain that the deletion comes after it. */
        remove_key(etcd);
        etcd->connection->n_farewells--;
        free(etcd);
        return;
    }
    etcd->has_asked = true;
    if (answer->code != LIB_CODE_OK) {
        refused(etcd, answer);
    } else if (!take_place(etcd, answer->message)) {
        fail(etcd, LEASE_PROTOCOL, "the server's answer is malformed");
    } else {
        check(etcd);
    }
}

static void place(struct lib_etcd_wait *etcd) {
    struct lib_etcd_txn txn = {0};
    struct lib_request request;
    struct bytes key = bytes_from_text(etcd->key);
    const struct lib_etcd_range own = {.key = key};
    const char *value = etcd->wait->value == NULL ? "" : etcd->wait->value;
    lib_etcd_txn_if_created(&txn, key, 0);
    lib_etcd_txn_put(&txn, LIB_ETCD_THEN, key, bytes_from_text(value), etcd->wait->session->id);
    lib_etcd_txn_range(&txn, LIB_ETCD_ELSE, &own);
    lib_etcd_txn_finish(&txn, false, &request);
    etcd->is_placing = true;
    etcd->asking = lib_ask_start(etcd->connection, &request, on_placed, etcd);
}

/* ---- begin and leave ---- */

static const char *why_not(const struct lease_wait *wait) {
    if (wait->n_wants != 1) {
        return "etcd cannot acquire several resources at once";
    }
    if (wait->wants[0].resource == NULL) {
        return "etcd has no pools";
    }
    if (wait->wants[0].mode == LEASE_SHARED) {
        return "etcd has no shared locks";
    }
    if (wait->hold_limit_ms != 0) {
        return "etcd has no hold limits";
    }
    return wait->queue_limit != 0 ? "etcd has no queue limits" : NULL;
}

static struct lib_etcd_wait *create(struct lease_wait *wait) {
    struct lib_etcd_wait *etcd = calloc(1, sizeof *etcd);
    if (etcd == NULL) {
        abort();
    }
    const char *name = wait->wants[0].resource;
    etcd->connection = wait->connection;
    etcd->wait = wait;
    etcd->session_id = wait->session->id;
    snprintf(etcd->prefix, sizeof etcd->prefix, "%s/", name);
    snprintf(etcd->prefix_end, sizeof etcd->prefix_end, "%s0", name); /* '0' follows '/' */
    snprintf(etcd->key, sizeof etcd->key, "%s/%llx-%s", name, (unsigned long long)wait->session->id,
             wait->request_id);
    return etcd;
}

void lib_etcd_wait_begin(struct lease_wait *wait) {
    const char *reason = why_not(wait);
    if (reason != NULL) {
        lib_wait_fail(wait, LEASE_UNSUPPORTED, reason);
        return;
    }
    if (wait->etcd == NULL) {
        wait->etcd = create(wait);
    }
    if (wait->etcd->revision == 0) {
        place(wait->etcd);
    } else {
        check(wait->etcd);
    }
}

void lib_etcd_wait_leave(struct lease_wait *wait) {
    struct lib_etcd_wait *etcd = wait->etcd;
    if (etcd == NULL) {
        return;
    }
    stop_watch(etcd);
    if (etcd->is_placing) {
        etcd->wait = NULL;
        wait->etcd = NULL;
        etcd->connection->n_farewells++;
        return;
    }
    lib_asking_cancel(etcd->asking);
    etcd->asking = NULL;
    if (etcd->has_asked) {
        etcd->has_asked = false;
        remove_key(etcd);
    }
}

/* ---- giving back ---- */

void lib_etcd_encode_release(const struct lease_hold *hold, struct lib_request *out_request) {
    struct lib_etcd_txn txn = {0};
    struct bytes key = bytes_from_text(hold->place.key);
    lib_etcd_txn_if_created(&txn, key, hold->acquisition.token);
    lib_etcd_txn_delete(&txn, LIB_ETCD_THEN, key);
    lib_etcd_txn_finish(&txn, true, out_request);
}

bool lib_etcd_decode_release(struct bytes message, bool *out_released) {
    struct arena arena;
    struct lib_etcd_outcome outcome;
    arena_init(&arena);
    bool is_well = lib_etcd_decode_txn(&arena, message, &outcome);
    arena_clear(&arena);
    *out_released = is_well && outcome.succeeded;
    return is_well;
}
