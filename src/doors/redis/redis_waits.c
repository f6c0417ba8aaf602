/* BLPOP and its like: who waits for which key, in the order of arrival. A watch of the headers
 * tells when there is something; then the rule is run, and whoever gets nothing goes on waiting. */
#include "core/key_store.h"
#include "doors/redis/redis_door_internal.h"
#include "doors/redis/redis_keys.h"
#include "doors/redis/redis_mpop_rules.h"
#include "doors/redis/redis_number_model.h"
#include "doors/redis/redis_reply.h"
#include "doors/redis/redis_run_rules.h"
#include "doors/redis/redis_stream_rules.h"

#include <stdlib.h>
#include <string.h>

enum {
    BUCKETS = 16 * 1024,
    KEYS_MAX = 1024, /* of one command */
    /* Of those that wait for one key, so many try at once; fewer when what they get is large. */
    TRYING_MAX = 64,
    TRYING_LARGE_MAX = 4,
    ANSWER_LARGE = 16 * 1024,
    LATE_AGAIN_MS = 10 /* as many try as may: one whose time is up looks again */
};

/* One key that a waiter waits for. */
struct wait_key {
    struct list link; /* of its bucket, in the order of arrival */
    struct redis_waiter *waiter;
    uint64_t hash;
    uint64_t delivery;            /* the last one of which its key was served */
    struct bytes key;             /* of the header's record */
    struct redis_stream_id after; /* of a stream: entries behind this one */
};

struct redis_waiter {
    struct redis_waits *waits;
    struct redis_connection *connection; /* NULL: gone */
    struct redis_pending *pending;       /* NULL: gone */
    struct buffer encoded;               /* the rule's request */
    uv_timer_t timer;
    bool has_timer;
    bool is_trying; /* the rule is on its way */
    bool is_woken;  /* … and something came meanwhile */
    bool is_late;   /* time is up */
    bool is_closed; /* out of all lists */
    /* A reply of this size found no room; 0: none did. Until there is room it is in waits->unfit;
     * then it tries again, and has the room. */
    size_t unfit_reply;
    struct list in_unfit;
    enum redis_type type;
    const struct redis_command *command;
    size_t held; /* of door->held_bytes */
    size_t n_keys;
    struct wait_key keys[]; /* and their bytes */
};

struct redis_waits {
    struct redis_door *door;
    struct list buckets[BUCKETS];
    size_t n;
    int64_t trying_max;
    int64_t n_trying;
    struct list unfit; /* struct redis_waiter, the oldest first */
    struct service_watch watch;
    uint64_t n_deliveries;
};

size_t redis_waits_count(const struct redis_waits *waits) {
    return waits->n;
}

static uint64_t hash_of(const struct redis_waits *waits, struct bytes key) {
    return keyed_hash_bytes(&waits->door->hash_key, key);
}

static struct list *bucket_of(struct redis_waits *waits, uint64_t hash) {
    return &waits->buckets[hash % BUCKETS];
}

/* Thousands may wait for one key, which may be long. Whoever tries without need is told so. */
static bool is_for(const struct wait_key *one, uint64_t hash) {
    return one->hash == hash;
}

/* The first that waits for a key; NULL: nobody does. */
static struct wait_key *first_of(struct redis_waits *waits, uint64_t hash) {
    struct list *bucket = bucket_of(waits, hash);
    for (struct list *node = bucket->next; node != bucket; node = node->next) {
        struct wait_key *one = list_entry(node, struct wait_key, link);
        if (is_for(one, hash)) {
            return one;
        }
    }
    return NULL;
}

/* How many elements there are to be had, as far as this member knows. A key of another type is
 * worth a try: the rule says what is wrong. */
static int64_t count_of(const struct redis_waits *waits, struct bytes key, enum redis_type type,
                        struct redis_stream_id *out_last) {
    const struct key_store *keys = state_view_keys(service_view(waits->door->service));
    const struct record *record = key_store_find(keys, KEY_SPACE_REDIS, key);
    struct redis_header header;
    *out_last = (struct redis_stream_id){UINT64_MAX, UINT64_MAX};
    if (record == NULL || !redis_header_decode(record_value(record), &header)) {
        return 0;
    }
    if (header.type == REDIS_STREAM && type == REDIS_STREAM) {
        *out_last = header.last;
        return INT64_MAX; /* nobody takes anything away */
    }
    return header.type == type ? header.count : 1;
}

/* Whether a stream whose last id is this has, or had, something for it. */
static bool is_news(const struct wait_key *one, struct redis_stream_id last) {
    return one->waiter->type != REDIS_STREAM || last.ms > one->after.ms ||
           (last.ms == one->after.ms && last.seq > one->after.seq);
}

/* --- The end of a wait. --- */

static void free_waiter(uv_handle_t *handle) {
    struct redis_waiter *waiter = handle->data;
    buffer_clear(&waiter->encoded);
    free(waiter);
}

/* Takes it out of all lists. It is freed when its timer is, and the rule is not on its way. */
static void leave(struct redis_waiter *waiter) {
    struct redis_waits *waits = waiter->waits;
    if (!waiter->is_closed) {
        waiter->is_closed = true;
        waits->n--;
        waits->door->held_bytes -= waiter->held;
        for (size_t i = 0; i < waiter->n_keys; i++) {
            list_remove(&waiter->keys[i].link);
        }
        list_remove(&waiter->in_unfit);
    }
}

static void destroy(struct redis_waiter *waiter) {
    leave(waiter);
    uv_timer_stop(&waiter->timer);
    uv_close((uv_handle_t *)&waiter->timer, free_waiter);
}

static void serve_key(struct redis_waits *waits, struct bytes key, uint64_t hash);

static void set_watch(struct redis_waits *waits);

/* Those behind one that tried have waited for it. */
static void serve_keys_of(const struct redis_waiter *waiter) {
    for (size_t i = 0; i < waiter->n_keys; i++) {
        serve_key(waiter->waits, waiter->keys[i].key, waiter->keys[i].hash);
    }
}

/* The reply is known. `has_tried`: nobody waits for one that did not, and looking at its keys
 * would be most of the work of a wait that ends without anything. */
static void finish(struct redis_waiter *waiter, struct bytes reply, bool has_tried) {
    struct redis_waits *waits = waiter->waits;
    struct redis_connection *connection = waiter->connection;
    struct redis_pending *pending = waiter->pending;
    leave(waiter);
    connection->waiter = NULL;
    raw_connection_begin_request(connection->raw); /* which ends with the entry */
    redis_pending_done(pending, reply);
    if (has_tried) {
        serve_keys_of(waiter);
    }
    destroy(waiter);
    set_watch(waits);
}

static const struct bytes time_is_up_reply = {(const uint8_t *)"*-1\r\n", 5};

/* What the rule answers when there was nothing. */
static struct bytes nothing_of(const struct redis_waiter *waiter) {
    bool is_move =
        waiter->command->id == REDIS_CMD_BLMOVE || waiter->command->id == REDIS_CMD_BRPOPLPUSH;
    return bytes_from_text(is_move ? "_\r\n" : "*-1\r\n");
}

/* --- Room. One entry of a stream may be a reply to each of thousands. It takes nothing away: a
 * reply for which there is no room is dropped, and made again when there is. --- */

static void try_it(struct redis_waiter *waiter);

static bool waits_for_room(const struct redis_waiter *waiter) {
    return waiter->unfit_reply > 0 && !waiter->is_trying;
}

static void wait_for_room(struct redis_waiter *waiter, size_t size) {
    waiter->unfit_reply = size;
    list_append(&waiter->waits->unfit, &waiter->in_unfit);
    redis_output_look_for_room(waiter->waits->door);
}

static void give_room_back(struct redis_waiter *waiter) {
    redis_output_unpromise(waiter->waits->door, waiter->unfit_reply);
    waiter->unfit_reply = 0;
}

static struct redis_waiter *find_fit(struct redis_waits *waits) {
    for (struct list *node = waits->unfit.next; node != &waits->unfit; node = node->next) {
        struct redis_waiter *waiter = list_entry(node, struct redis_waiter, in_unfit);
        if (redis_output_has_room(waiter->connection, waiter->unfit_reply)) {
            return waiter;
        }
    }
    return NULL;
}

bool redis_waits_try_unfit(struct redis_waits *waits) {
    struct redis_waiter *waiter;
    for (size_t i = 0; i < TRYING_LARGE_MAX && (waiter = find_fit(waits)) != NULL; i++) {
        list_remove(&waiter->in_unfit);
        redis_output_promise(waits->door, waiter->unfit_reply);
        try_it(waiter);
    }
    return !list_is_empty(&waits->unfit);
}

/* --- Trying. --- */

static bool may_get_something(const struct redis_waiter *waiter) {
    for (size_t i = 0; i < waiter->n_keys; i++) {
        struct redis_stream_id last;
        if (count_of(waiter->waits, waiter->keys[i].key, waiter->type, &last) > 0 &&
            is_news(&waiter->keys[i], last)) {
            return true;
        }
    }
    return false;
}

struct attempt {
    struct service_request request;
    struct redis_waiter *waiter;
};

static void tried(struct service_request *request, const struct outcome *outcome) {
    struct attempt *attempt = list_entry(request, struct attempt, request);
    struct redis_waiter *waiter = attempt->waiter;
    struct redis_waits *waits = waiter->waits;
    free(attempt);
    waits->n_trying--;
    waiter->is_trying = false;
    if (waiter->connection == NULL) {
        serve_keys_of(waiter);
        destroy(waiter);
        return;
    }
    give_room_back(waiter);
    if (outcome->status != STATUS_OK) {
        struct buffer reply;
        buffer_init(&reply);
        redis_reply_status(&reply, outcome->status);
        finish(waiter, bytes_of(reply.data, reply.size), true);
        buffer_clear(&reply);
        return;
    }
    struct bytes answer = outcome->rule.answer;
    waits->trying_max = answer.size > ANSWER_LARGE ? TRYING_LARGE_MAX : TRYING_MAX;
    bool is_nothing = bytes_equal(answer, nothing_of(waiter));
    if (!is_nothing && waiter->type == REDIS_STREAM &&
        !redis_output_has_room(waiter->connection, answer.size)) {
        wait_for_room(waiter, answer.size);
    } else if (!is_nothing) {
        finish(waiter, answer, true);
    } else if (waiter->is_late) {
        finish(waiter, time_is_up_reply, true);
    } else if (waiter->type == REDIS_STREAM ? waiter->is_woken : may_get_something(waiter)) {
        try_it(waiter);
    }
}

static void try_it(struct redis_waiter *waiter) {
    struct redis_door *door = waiter->waits->door;
    struct attempt *attempt = calloc(1, sizeof *attempt);
    if (attempt == NULL) {
        abort();
    }
    attempt->waiter = waiter;
    attempt->request.done = tried;
    waiter->waits->n_trying++;
    waiter->is_trying = true;
    waiter->is_woken = false;
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = REDIS_RULE_EXEC,
                 .request = bytes_of(waiter->encoded.data, waiter->encoded.size)}};
    door->stats.rules++;
    service_submit(door->service, redis_connection_caller(waiter->connection), &attempt->request,
                   &command);
}

/* As many try as there are elements, the oldest first. */
static void serve_key(struct redis_waits *waits, struct bytes key, uint64_t hash) {
    struct list *bucket = bucket_of(waits, hash);
    int64_t left = -1;
    struct redis_stream_id last;
    for (struct list *node = bucket->next; node != bucket && left != 0; node = node->next) {
        struct wait_key *one = list_entry(node, struct wait_key, link);
        if (!is_for(one, hash)) {
            continue;
        }
        if (left < 0) {
            left = count_of(waits, key, one->waiter->type, &last);
            left = left < waits->trying_max ? left : waits->trying_max;
        }
        /* Those that wait for room are not in the way of others. */
        if (left > 0 && is_news(one, last) && !waits_for_room(one->waiter)) {
            left--;
            if (one->waiter->is_trying) {
                one->waiter->is_woken = true;
            } else {
                try_it(one->waiter);
            }
        }
    }
}

/* --- The watch. --- */

/* A key that was changed many times is served once: the state has all of it. */
static void serve_changed(struct redis_waits *waits, struct bytes key) {
    uint64_t hash = hash_of(waits, key);
    struct wait_key *first = first_of(waits, hash);
    if (first != NULL && first->delivery != waits->n_deliveries) {
        first->delivery = waits->n_deliveries;
        serve_key(waits, key, hash);
    }
}

static bool deliver(struct service_watch *watch, const struct watch_batch *batch) {
    struct redis_waits *waits = list_entry(watch, struct redis_waits, watch);
    waits->n_deliveries++;
    for (size_t i = 0; i < batch->n_events; i++) {
        const struct record *record = batch->events[i];
        struct redis_header header;
        if (!record_is_tombstone(record) && redis_header_decode(record_value(record), &header) &&
            (header.type == REDIS_LIST || header.type == REDIS_ZSET ||
             header.type == REDIS_STREAM)) {
            serve_changed(waits, record_key(record));
        }
    }
    return true;
}

static void begin(struct redis_waits *waits) {
    static const uint8_t first[] = {0};
    static const uint8_t end[] = {REDIS_DATABASES};
    const struct service_watch_options options = {
        .range = {.space = KEY_SPACE_REDIS, .key = {first, 1}, .range_end = {end, 1}},
        .without_deletes = true};
    (void)service_watch(waits->door->service, &caller_server, &waits->watch, &options);
}

static void compacted(struct service_watch *watch, int64_t compacted_revision) {
    struct redis_waits *waits = list_entry(watch, struct redis_waits, watch);
    (void)compacted_revision;
    begin(waits);
    for (size_t i = 0; i < BUCKETS; i++) {
        struct list *bucket = &waits->buckets[i];
        for (struct list *node = bucket->next; node != bucket; node = node->next) {
            struct redis_waiter *waiter = list_entry(node, struct wait_key, link)->waiter;
            if (!waiter->is_trying && !waits_for_room(waiter) && may_get_something(waiter)) {
                try_it(waiter);
            }
        }
    }
}

static void revoked(struct service_watch *watch, enum status status) {
    (void)watch;
    (void)status;
}

static void set_watch(struct redis_waits *waits) {
    bool is_there = waits->watch.private.watcher != NULL;
    if (waits->n > 0 && !is_there) {
        begin(waits);
    } else if (waits->n == 0 && is_there) {
        service_unwatch(waits->door->service, &waits->watch);
    }
}

/* --- The beginning of a wait. --- */

static void time_is_up(uv_timer_t *timer) {
    struct redis_waiter *waiter = timer->data;
    waiter->is_late = true;
    if (waiter->is_trying || waits_for_room(waiter)) {
        return;
    }
    /* Behind those that try or wait for room there may be an entry for it, which it would miss.
     * Many may be late at the same moment. */
    bool may_get = waiter->type == REDIS_STREAM && may_get_something(waiter);
    if (may_get && waiter->waits->n_trying >= waiter->waits->trying_max) {
        uv_timer_start(timer, time_is_up, LATE_AGAIN_MS, 0);
    } else if (may_get) {
        try_it(waiter);
    } else {
        finish(waiter, time_is_up_reply, false);
    }
}

/* Of XREAD, where it says how long: in milliseconds. False: it does not wait. */
static bool find_block(const struct redis_exec_command *command, struct bytes *out_argument) {
    const struct bytes *argv = command->argv;
    for (size_t i = 1; i + 1 < command->argc && !redis_word_is(argv[i], "streams"); i += 2) {
        if (redis_word_is(argv[i], "block")) {
            *out_argument = argv[i + 1];
            return true;
        }
    }
    return false;
}

bool redis_waits_takes(const struct redis_exec_command *command) {
    struct redis_key_places places;
    struct bytes ignored;
    return (command->command->flags & REDIS_F_BLOCK) != 0 ||
           (command->command->id == REDIS_CMD_XREAD && find_block(command, &ignored) &&
            redis_command_keys(command->command, command->argv, command->argc, &places));
}

static bool is_side(struct bytes word) {
    return redis_word_is(word, "left") || redis_word_is(word, "right");
}

static const char *get_block(struct bytes argument, uint64_t *out_ms) {
    int64_t ms;
    if (!redis_number_integer(argument, &ms)) {
        return "ERR timeout is not an integer or out of range";
    }
    if (ms < 0) {
        return "ERR timeout is negative";
    }
    *out_ms = (uint64_t)ms;
    return NULL;
}

/* How long it waits; NULL, or the error that is the reply, also when the other arguments are wrong.
 */
static const char *get_time(const struct redis_exec_command *command, uint64_t *out_ms) {
    const struct bytes *argv = command->argv;
    struct redis_mpop mpop;
    struct bytes block;
    if (command->command->id == REDIS_CMD_XREAD && find_block(command, &block)) {
        return get_block(block, out_ms);
    }
    if (redis_mpop_is(command->command)) {
        const char *error = redis_mpop_parse(command->command, argv, command->argc, &mpop);
        return error != NULL ? error : redis_timeout_parse(argv[1], out_ms);
    }
    if (command->command->id == REDIS_CMD_BLMOVE && !(is_side(argv[3]) && is_side(argv[4]))) {
        return "ERR syntax error";
    }
    return redis_timeout_parse(argv[command->argc - 1], out_ms);
}

/* The keys that it waits for: of a move the source alone. */
static size_t count_keys(const struct redis_exec_command *command) {
    struct redis_key_places places;
    if ((command->command->flags & REDIS_F_MOVABLE) != 0) {
        (void)redis_command_keys(command->command, command->argv, command->argc, &places);
        return places.n;
    }
    bool is_move =
        command->command->id == REDIS_CMD_BLMOVE || command->command->id == REDIS_CMD_BRPOPLPUSH;
    return is_move ? 1 : command->argc - 2;
}

static const struct bytes *names_of(const struct redis_exec_command *command) {
    struct redis_key_places places = {.first = 1};
    if ((command->command->flags & REDIS_F_MOVABLE) != 0) {
        (void)redis_command_keys(command->command, command->argv, command->argc, &places);
    }
    return &command->argv[places.first];
}

/* "$" is the last id that there is now, as far as this member knows. In arena memory. */
static struct redis_exec_command with_ids(struct redis_connection *connection,
                                          const struct redis_exec_command *command) {
    struct redis_door *door = connection->door;
    const struct key_store *keys = state_view_keys(service_view(door->service));
    struct redis_exec_command changed = *command;
    size_t n = count_keys(command);
    if (command->command->id != REDIS_CMD_XREAD) {
        return changed;
    }
    struct bytes *argv =
        arena_copy(&door->arena, command->argv, command->argc * sizeof command->argv[0]);
    struct bytes *names = argv + (names_of(command) - command->argv);
    for (size_t i = 0; i < n; i++) {
        struct redis_header header = {0};
        struct bytes key = redis_key_main(&door->arena, command->db, names[i]);
        const struct record *record = key_store_find(keys, KEY_SPACE_REDIS, key);
        if (names[n + i].size == 1 && names[n + i].data[0] == '$') {
            char text[REDIS_STREAM_ID_SIZE];
            if (record != NULL) {
                (void)redis_header_decode(record_value(record), &header);
            }
            size_t size = redis_stream_id_text(header.last, text);
            names[n + i] = bytes_of(arena_copy(&door->arena, text, size), size);
        }
    }
    changed.argv = argv;
    return changed;
}

static enum redis_type type_of(const struct redis_command *command) {
    if (command->id == REDIS_CMD_XREAD) {
        return REDIS_STREAM;
    }
    return strcmp(command->group, "sorted-set") == 0 ? REDIS_ZSET : REDIS_LIST;
}

/* A key that was named before is waited for once. The waiter's own keys are the last ones of each
 * bucket. */
static bool is_known(const struct redis_waiter *waiter, const struct list *bucket, uint64_t hash) {
    for (const struct list *node = bucket->previous; node != bucket; node = node->previous) {
        const struct wait_key *one = list_entry(node, struct wait_key, link);
        if (one->waiter != waiter) {
            return false;
        }
        if (is_for(one, hash)) {
            return true;
        }
    }
    return false;
}

/* What it will hold: its keys twice, once in the request. */
static size_t size_of(const struct redis_exec_command *command) {
    enum { KEY_OVERHEAD = sizeof(struct wait_key) + 32 };
    size_t size = sizeof(struct redis_waiter);
    for (size_t i = 0; i < command->argc; i++) {
        size += KEY_OVERHEAD + 2 * command->argv[i].size;
    }
    return size;
}

/* With room for so many keys of these names, whose bytes begin at `out_bytes`. */
static struct redis_waiter *allocate(const struct bytes *names, size_t n_keys,
                                     uint8_t **out_bytes) {
    struct redis_waiter *waiter;
    size_t size = sizeof *waiter + n_keys * sizeof waiter->keys[0];
    size_t names_size = n_keys; /* each begins with its database */
    for (size_t i = 0; i < n_keys; i++) {
        names_size += names[i].size;
    }
    waiter = calloc(1, size + names_size);
    if (waiter == NULL) {
        abort();
    }
    *out_bytes = (uint8_t *)waiter + size;
    return waiter;
}

static struct redis_waiter *create(struct redis_connection *connection,
                                   const struct redis_exec_command *command) {
    struct redis_waits *waits = connection->door->waits;
    size_t n_keys = count_keys(command);
    const struct bytes *names = names_of(command);
    uint8_t *bytes;
    struct redis_waiter *waiter = allocate(names, n_keys, &bytes);
    waiter->waits = waits;
    waiter->connection = connection;
    waiter->command = command->command;
    waiter->type = type_of(command->command);
    uv_timer_init(connection->door->environment->loop, &waiter->timer);
    waiter->timer.data = waiter;
    for (size_t i = 0; i < n_keys; i++) {
        struct wait_key *key = &waiter->keys[waiter->n_keys];
        bytes[0] = (uint8_t)command->db;
        memcpy(bytes + 1, names[i].data, names[i].size);
        key->waiter = waiter;
        key->key = bytes_of(bytes, 1 + names[i].size);
        key->hash = hash_of(waits, key->key);
        struct list *bucket = bucket_of(waits, key->hash);
        if (is_known(waiter, bucket, key->hash)) {
            continue; /* its bytes are written over */
        }
        bytes += key->key.size;
        /* One that cannot be read is the rule's to refuse. */
        if (waiter->type == REDIS_STREAM) {
            (void)redis_stream_id_parse(names[n_keys + i], &key->after);
        }
        list_append(bucket, &key->link);
        waiter->n_keys++;
    }
    waits->n++;
    waiter->held = size_of(command);
    waits->door->held_bytes += waiter->held;
    list_init(&waiter->in_unfit);
    buffer_init(&waiter->encoded);
    const struct redis_exec_head head = {.seed = redis_door_random(connection->door),
                                         .n_commands = 1};
    redis_exec_put_head(&waiter->encoded, &head);
    redis_exec_put_command(&waiter->encoded, command->db, command->argv, command->argc);
    return waiter;
}

/* Whether others wait for one of its keys already: then it is not its turn. Nobody takes anything
 * away from a stream, and those in front of it may wait for later entries. */
static bool is_behind(const struct redis_waiter *waiter) {
    for (size_t i = 0; i < waiter->n_keys && waiter->type != REDIS_STREAM; i++) {
        struct list *bucket = bucket_of(waiter->waits, waiter->keys[i].hash);
        for (struct list *node = bucket->next; node != &waiter->keys[i].link; node = node->next) {
            const struct wait_key *other = list_entry(node, struct wait_key, link);
            if (other->waiter != waiter && is_for(other, waiter->keys[i].hash)) {
                return true;
            }
        }
    }
    return false;
}

void redis_waits_run(struct redis_connection *connection,
                     const struct redis_exec_command *command) {
    uint64_t timeout_ms;
    const char *error = get_time(command, &timeout_ms);
    if (error == NULL && count_keys(command) > KEYS_MAX) {
        error = "ERR a client can wait for 1024 keys at most";
    }
    if (error == NULL && !redis_door_may_hold(connection->door, 0, size_of(command))) {
        error = "ERR the keys that all clients wait for are too large";
    }
    if (error != NULL) {
        redis_reply_error_text(&connection->door->scratch, error);
        return;
    }
    struct redis_pending *pending = redis_pending_create(connection, command->command);
    if (pending == NULL) {
        return;
    }
    raw_connection_end_request(connection->raw); /* a client that waits is idle */
    const struct redis_exec_command changed = with_ids(connection, command);
    struct redis_waiter *waiter = create(connection, &changed);
    waiter->pending = pending;
    connection->waiter = waiter;
    connection->is_stopped = true;
    if (timeout_ms > 0) {
        uv_timer_start(&waiter->timer, time_is_up, timeout_ms, 0);
    }
    set_watch(waiter->waits);
    /* While rights count, the rule says whether the client has them. */
    if (redis_door_asks_who(connection->door) ||
        (!is_behind(waiter) && may_get_something(waiter))) {
        try_it(waiter);
    }
}

void redis_waits_leave(struct redis_connection *connection) {
    struct redis_waiter *waiter = connection->waiter;
    if (waiter == NULL) {
        return;
    }
    struct redis_waits *waits = waiter->waits;
    bool others_wait = waits_for_room(waiter);
    if (waiter->is_trying) {
        give_room_back(waiter);
    }
    connection->waiter = NULL;
    waiter->connection = NULL;
    waiter->pending = NULL;
    leave(waiter);
    raw_connection_begin_request(connection->raw);
    if (others_wait) {
        serve_keys_of(waiter);
    }
    if (!waiter->is_trying) {
        destroy(waiter);
    }
    set_watch(waits);
}

/* --- Life. --- */

struct redis_waits *redis_waits_create(struct redis_door *door) {
    struct redis_waits *waits = calloc(1, sizeof *waits);
    if (waits == NULL) {
        abort();
    }
    waits->door = door;
    waits->trying_max = TRYING_LARGE_MAX;
    list_init(&waits->unfit);
    for (size_t i = 0; i < BUCKETS; i++) {
        list_init(&waits->buckets[i]);
    }
    waits->watch =
        (struct service_watch){.deliver = deliver, .compacted = compacted, .revoked = revoked};
    return waits;
}

void redis_waits_destroy(struct redis_waits *waits) {
    service_unwatch(waits->door->service, &waits->watch);
    free(waits);
}
