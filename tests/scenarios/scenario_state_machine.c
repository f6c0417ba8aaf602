/*
 * Drives a state machine by text, with a clock that moves only when told to. Every command goes
 * through command_check() and its encoding, as on its way through the log, and every structure is
 * validated after it. The table at the end lists the commands and what they take.
 */
#include "core/state_machine.h"

#include "scenario_text.h"
#include "trial_rules.h"

enum { WORDS_MAX = 16, WATCHERS_MAX = 8, EXPIRED_MAX = 1000 };

struct watch {
    char name[16];
    struct watcher *watcher;
    bool is_full;          /* takes nothing until `drain` */
    struct buffer pending; /* the text of what was delivered */
};

struct story {
    struct state_machine *machine;
    struct arena arena;
    struct buffer log;
    struct apply_context context;
    struct watch watches[WATCHERS_MAX];
    struct buffer *answer;
    /* The block being played. */
    const struct scenario_block *block;
    size_t line;
    char text[512];
    size_t n_words;
    char *words[WORDS_MAX];
};

/* --- Words. --- */

static void die(const struct story *story, const char *why) {
    fprintf(stderr, "%s: %s\n", story->block->lines[story->line], why);
    exit(2);
}

static void split_line(struct story *story) {
    const char *line = story->block->lines[story->line];
    char *rest = story->text;
    if (strlen(line) >= sizeof story->text) {
        die(story, "a line too long");
    }
    strcpy(story->text, line);
    story->n_words = 0;
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
        if (story->n_words == WORDS_MAX) {
            die(story, "too many words");
        }
        story->words[story->n_words++] = word;
    }
}

static char *word(const struct story *story, size_t i) {
    if (i >= story->n_words) {
        die(story, "a word is missing");
    }
    return story->words[i];
}

static int64_t to_number(const struct story *story, const char *text) {
    char *end;
    if (strcmp(text, "forever") == 0) {
        return LEASE_TTL_FOREVER;
    }
    long long number = strtoll(text, &end, 10);
    if (end == text || *end != '\0') {
        die(story, "a number is wanted");
    }
    return number;
}

/* The text behind `name=`, or NULL. */
static const char *option(const struct story *story, const char *name) {
    size_t size = strlen(name);
    for (size_t i = 0; i < story->n_words; i++) {
        if (strncmp(story->words[i], name, size) == 0 && story->words[i][size] == '=') {
            return story->words[i] + size + 1;
        }
    }
    return NULL;
}

static int64_t number_option(const struct story *story, const char *name) {
    const char *text = option(story, name);
    return text == NULL ? 0 : to_number(story, text);
}

static bool flag(const struct story *story, const char *name) {
    for (size_t i = 0; i < story->n_words; i++) {
        if (strcmp(story->words[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Words are gone with the next line, so requests keep copies. `""` is the empty text. */
static struct bytes copy_bytes(struct story *story, const char *text) {
    size_t size = strcmp(text, "\"\"") == 0 ? 0 : strlen(text);
    return bytes_of(arena_copy(&story->arena, text, size), size);
}

/* `*` is every key from the first one on. */
static struct bytes end_option(struct story *story) {
    const char *text = option(story, "to");
    if (text != NULL && strcmp(text, "*") == 0) {
        return bytes_of("\0", 1);
    }
    return text == NULL ? bytes_of(NULL, 0) : copy_bytes(story, text);
}

/* --- Requests from words, starting at word `at`. --- */

static struct put_request to_put(struct story *story, size_t at) {
    return (struct put_request){.key = copy_bytes(story, word(story, at)),
                                .value = copy_bytes(story, word(story, at + 1)),
                                .lease_id = number_option(story, "lease"),
                                .want_previous = flag(story, "prev"),
                                .ignore_value = flag(story, "keep-value"),
                                .ignore_lease = flag(story, "keep-lease")};
}

static struct delete_request to_delete(struct story *story, size_t at) {
    return (struct delete_request){.key = copy_bytes(story, word(story, at)),
                                   .range_end = end_option(story),
                                   .want_previous = flag(story, "prev")};
}

static enum sort_target to_sort_target(const struct story *story, const char *text) {
    static const char *const names[] = {"key", "version", "create", "mod", "value"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            return (enum sort_target)i;
        }
    }
    die(story, "sort by key, version, create, mod or value");
    return SORT_BY_KEY;
}

static struct range_request to_range(struct story *story, size_t at) {
    const char *sort = option(story, "sort");
    struct range_request range = {.key = copy_bytes(story, word(story, at)),
                                  .range_end = end_option(story),
                                  .revision = number_option(story, "rev"),
                                  .limit = number_option(story, "limit"),
                                  .count_only = flag(story, "count"),
                                  .mod_revision_min = number_option(story, "min-mod"),
                                  .mod_revision_max = number_option(story, "max-mod"),
                                  .create_revision_min = number_option(story, "min-create"),
                                  .create_revision_max = number_option(story, "max-create")};
    if (sort != NULL) {
        range.target = to_sort_target(story, sort);
        range.order = flag(story, "desc") ? SORT_DESCENDING : SORT_ASCENDING;
    }
    return range;
}

static struct compare to_compare(struct story *story) {
    static const char *const targets[] = {"version", "create", "mod", "value", "lease"};
    static const char *const results[] = {"=", ">", "<", "!="};
    struct compare compare = {.target = COMPARE_LEASE + 1, .result = COMPARE_NOT_EQUAL + 1};
    for (unsigned i = 0; i < 5; i++) {
        compare.target = strcmp(word(story, 1), targets[i]) == 0 ? i : compare.target;
    }
    for (unsigned i = 0; i < 4; i++) {
        compare.result = strcmp(word(story, 3), results[i]) == 0 ? i : compare.result;
    }
    if (compare.target > COMPARE_LEASE || compare.result > COMPARE_NOT_EQUAL) {
        die(story, "if version|create|mod|value|lease KEY =|>|<|!= WHAT");
    }
    compare.key = copy_bytes(story, word(story, 2));
    compare.range_end = end_option(story);
    if (compare.target == COMPARE_VALUE) {
        compare.value = copy_bytes(story, word(story, 4));
    } else {
        compare.number = to_number(story, word(story, 4));
    }
    return compare;
}

/* Lines `if ...`, `then ...`, `else ...` up to `end`; `then txn` begins one inside. */
static struct txn_request to_txn(struct story *story) {
    struct txn_request txn = {
        .compares = arena_calloc(&story->arena, SCENARIO_LINES_MAX, sizeof *txn.compares),
        .success = arena_calloc(&story->arena, SCENARIO_LINES_MAX, sizeof *txn.success),
        .failure = arena_calloc(&story->arena, SCENARIO_LINES_MAX, sizeof *txn.failure)};
    for (;;) {
        if (++story->line == story->block->n_lines) {
            story->line--;
            die(story, "a transaction without end");
        }
        split_line(story);
        if (strcmp(word(story, 0), "end") == 0) {
            return txn;
        }
        if (strcmp(word(story, 0), "if") == 0) {
            txn.compares[txn.n_compares++] = to_compare(story);
            continue;
        }
        bool is_success = strcmp(word(story, 0), "then") == 0;
        struct operation *operation =
            is_success ? &txn.success[txn.n_success++] : &txn.failure[txn.n_failure++];
        const char *what = word(story, 1);
        if (strcmp(what, "put") == 0) {
            *operation = (struct operation){.type = OPERATION_PUT, .put = to_put(story, 2)};
        } else if (strcmp(what, "get") == 0) {
            *operation = (struct operation){.type = OPERATION_RANGE, .range = to_range(story, 2)};
        } else if (strcmp(what, "del") == 0) {
            *operation =
                (struct operation){.type = OPERATION_DELETE, .delete = to_delete(story, 2)};
        } else if (strcmp(what, "txn") == 0) {
            *operation = (struct operation){.type = OPERATION_TXN, .txn = to_txn(story)};
        } else {
            die(story, "if, then or else, with put, get, del or txn");
        }
    }
}

/* --- Answers. --- */

static void print_record(struct buffer *answer, const struct record *record) {
    struct bytes key = record_key(record);
    if (record_is_tombstone(record)) {
        scenario_print(answer, "%.*s deleted at %lld\n", (int)key.size, (const char *)key.data,
                       (long long)record->mod_revision);
        return;
    }
    scenario_print(answer, "%.*s=%.*s create %lld mod %lld version %lld", (int)key.size,
                   (const char *)key.data, (int)record->value_size,
                   (const char *)record_value(record).data, (long long)record->create_revision,
                   (long long)record->mod_revision, (long long)record->version);
    if (record->lease_id != 0) {
        scenario_print(answer, " lease %lld", (long long)record->lease_id);
    }
    scenario_print(answer, "\n");
}

static void print_range(struct buffer *answer, const struct range_outcome *range) {
    for (size_t i = 0; i < range->n_records; i++) {
        print_record(answer, range->records[i]);
    }
    scenario_print(answer, "count %lld%s\n", (long long)range->count, range->more ? ", more" : "");
}

static void print_delete(struct buffer *answer, const struct delete_outcome *delete) {
    scenario_print(answer, "deleted %lld\n", (long long)delete->deleted);
    for (size_t i = 0; i < delete->n_previous; i++) {
        scenario_print(answer, "was ");
        print_record(answer, delete->previous[i]);
    }
}

static void print_put(struct buffer *answer, const struct put_outcome *put) {
    if (put->previous != NULL) {
        scenario_print(answer, "was ");
        print_record(answer, put->previous);
    }
}

static void print_txn(struct buffer *answer, const struct txn_outcome *txn) {
    scenario_print(answer, "%s\n", txn->succeeded ? "succeeded" : "failed");
    for (size_t i = 0; i < txn->n_outcomes; i++) {
        const struct operation_outcome *outcome = &txn->outcomes[i];
        scenario_print(answer, "%zu at %lld: ", i + 1, (long long)outcome->revision);
        switch (outcome->type) {
        case OPERATION_RANGE:
            print_range(answer, &outcome->range);
            break;
        case OPERATION_PUT:
            scenario_print(answer, "put\n");
            print_put(answer, &outcome->put);
            break;
        case OPERATION_DELETE:
            print_delete(answer, &outcome->delete);
            break;
        case OPERATION_TXN:
            print_txn(answer, &outcome->txn);
            break;
        }
    }
}

/* --- Carrying commands out. --- */

static void validate(struct story *story) {
    key_store_validate(state_machine_keys(story->machine));
    lease_table_validate(state_machine_leases(story->machine));
    watch_hub_validate(state_machine_watches(story->machine));
}

/* As the replication does after each entry. */
static void publish(struct story *story) {
    struct watch_hub *hub = state_machine_watches(story->machine);
    watch_hub_publish(hub);
    while (watch_hub_work(hub, 10)) {
        watch_hub_validate(hub);
    }
    while (key_store_reclaim(state_machine_keys(story->machine), 1)) {
        validate(story);
    }
    validate(story);
}

/* True when it was carried out; otherwise the error is in the answer. */
static bool apply(struct story *story, const struct command *command, struct outcome *outcome) {
    enum status status = command_check(command);
    if (status == STATUS_OK) {
        struct reader reader;
        struct command decoded;
        story->log.size = 0;
        command_encode(&story->log, command);
        reader_init(&reader, bytes_of(story->log.data, story->log.size));
        if (command_decode(&reader, &story->arena, &decoded) != STATUS_OK) {
            die(story, "the command does not survive its encoding");
        }
        state_machine_apply(story->machine, &decoded, &story->context, &story->arena, outcome);
        status = outcome->status;
    }
    if (status != STATUS_OK) {
        scenario_print(story->answer, "error: %s\n", status_text(status));
    }
    return status == STATUS_OK;
}

static void say_done(struct story *story, const struct outcome *outcome) {
    scenario_print(story->answer, "ok, revision %lld\n", (long long)outcome->revision);
}

static void play_put(struct story *story) {
    struct command command = {.type = COMMAND_PUT, .put = to_put(story, 1)};
    struct outcome outcome;
    if (apply(story, &command, &outcome)) {
        print_put(story->answer, &outcome.put);
        say_done(story, &outcome);
    }
}

static void play_del(struct story *story) {
    struct command command = {.type = COMMAND_DELETE, .delete = to_delete(story, 1)};
    struct outcome outcome;
    if (apply(story, &command, &outcome)) {
        print_delete(story->answer, &outcome.delete);
        say_done(story, &outcome);
    }
}

static void play_get(struct story *story) {
    struct range_request request = to_range(story, 1);
    struct range_outcome outcome;
    enum status status =
        key_store_range(state_machine_keys(story->machine), KEY_SPACE_ETCD, &request,
                        &(struct key_work){.left = SIZE_MAX}, &story->arena, &outcome);
    if (status == STATUS_OK) {
        print_range(story->answer, &outcome);
    } else {
        scenario_print(story->answer, "error: %s\n", status_text(status));
    }
}

static void play_txn(struct story *story) {
    struct command command = {.type = COMMAND_TXN, .txn = to_txn(story)};
    struct outcome outcome;
    if (apply(story, &command, &outcome)) {
        print_txn(story->answer, &outcome.txn);
        say_done(story, &outcome);
    }
}

static void play_simple(struct story *story, struct command command) {
    struct outcome outcome;
    if (apply(story, &command, &outcome)) {
        say_done(story, &outcome);
    }
}

static void play_compact(struct story *story) {
    play_simple(story, (struct command){.type = COMMAND_COMPACT,
                                        .compact = {.revision = to_number(story, word(story, 1))}});
}

static void play_grant(struct story *story) {
    play_simple(story, (struct command){.type = COMMAND_LEASE_GRANT,
                                        .grant = {.id = to_number(story, word(story, 1)),
                                                  .ttl_ms = to_number(story, word(story, 2)),
                                                  .parent_id = number_option(story, "parent")}});
}

static void play_revoke(struct story *story) {
    play_simple(story, (struct command){.type = COMMAND_LEASE_REVOKE,
                                        .revoke = {.id = to_number(story, word(story, 1))}});
}

static void play_set_ttl(struct story *story) {
    play_simple(story, (struct command){.type = COMMAND_LEASE_SET_TTL,
                                        .set_ttl = {.id = to_number(story, word(story, 1)),
                                                    .ttl_ms = to_number(story, word(story, 2))}});
}

static uint32_t epoch_of(struct story *story, int64_t id) {
    struct lease_facts facts = {0};
    (void)lease_table_find(state_machine_leases(story->machine), id, &facts);
    return facts.epoch;
}

static void play_checkpoint(struct story *story) {
    int64_t id = to_number(story, word(story, 1));
    uint32_t epoch = epoch_of(story, id);
    int64_t remaining_ms = to_number(story, word(story, 2));
    play_simple(story, (struct command){.type = COMMAND_LEASE_CHECKPOINT,
                                        .checkpoint = {.term = story->context.term,
                                                       .n = 1,
                                                       .ids = &id,
                                                       .epochs = &epoch,
                                                       .remaining_ms = &remaining_ms}});
}

static void expire_ids(struct story *story, uint64_t term, const int64_t *ids, size_t n) {
    uint32_t *epochs = calloc(n + 1, sizeof *epochs);
    for (size_t i = 0; i < n; i++) {
        epochs[i] = epoch_of(story, ids[i]);
    }
    struct command command = {.type = COMMAND_LEASE_EXPIRE,
                              .expire = {.term = term, .n = n, .ids = ids, .epochs = epochs}};
    struct outcome outcome;
    if (apply(story, &command, &outcome)) {
        scenario_print(story->answer, "ended %zu, revision %lld\n", outcome.expire.n_ended,
                       (long long)outcome.revision);
    }
    free(epochs);
}

/* What a leader of an older term left in the log. */
static void play_expire(struct story *story) {
    int64_t ids[WORDS_MAX];
    size_t n = 0;
    for (size_t i = 1; i < story->n_words; i++) {
        if (strchr(story->words[i], '=') == NULL) {
            ids[n++] = to_number(story, story->words[i]);
        }
    }
    expire_ids(story, (uint64_t)number_option(story, "term"), ids, n);
}

static void play_renew(struct story *story) {
    int64_t ttl_ms;
    bool is_checkpointed;
    enum status status =
        lease_table_renew(state_machine_leases(story->machine), to_number(story, word(story, 1)),
                          story->context.now_ms, &ttl_ms, &is_checkpointed);
    if (status == STATUS_OK) {
        scenario_print(story->answer, "renewed for %lld ms%s\n", (long long)ttl_ms,
                       is_checkpointed ? ", once its checkpoint is cleared" : "");
    } else {
        scenario_print(story->answer, "error: %s\n", status_text(status));
    }
}

static void play_advance(struct story *story) {
    int64_t ids[EXPIRED_MAX];
    story->context.now_ms += (uint64_t)to_number(story, word(story, 1));
    story->context.wall_ms += to_number(story, word(story, 1));
    size_t n = lease_table_claim_expired(state_machine_leases(story->machine),
                                         story->context.now_ms, ids, EXPIRED_MAX);
    scenario_print(story->answer, n == 0 ? "nothing expired\n" : "expired:");
    for (size_t i = 0; i < n; i++) {
        scenario_print(story->answer, " %lld%s", (long long)ids[i], i + 1 == n ? "\n" : "");
    }
    if (n > 0) {
        expire_ids(story, story->context.term, ids, n);
    }
}

static void play_remaining(struct story *story) {
    int64_t left_ms;
    enum status status =
        lease_table_remaining(state_machine_leases(story->machine),
                              to_number(story, word(story, 1)), story->context.now_ms, &left_ms);
    if (status != STATUS_OK) {
        scenario_print(story->answer, "error: %s\n", status_text(status));
    } else if (left_ms == LEASE_TTL_FOREVER) {
        scenario_print(story->answer, "forever\n");
    } else {
        scenario_print(story->answer, "%lld ms\n", (long long)left_ms);
    }
}

static int compare_records(const void *a, const void *b) {
    return bytes_compare(record_key(*(struct record *const *)a),
                         record_key(*(struct record *const *)b));
}

static void play_leases(struct story *story) {
    struct lease_table *leases = state_machine_leases(story->machine);
    size_t n;
    int64_t *ids = lease_table_ids(leases, &n);
    if (n == 0) {
        scenario_print(story->answer, "none\n");
    }
    for (size_t i = 0; i < n; i++) {
        struct lease_facts facts;
        struct record *keys[100];
        size_t n_keys = 0;
        lease_table_find(leases, ids[i], &facts);
        scenario_print(story->answer, "%lld", (long long)facts.id);
        if (facts.ttl_ms == LEASE_TTL_FOREVER) {
            scenario_print(story->answer, " forever");
        } else {
            scenario_print(story->answer, " %lld ms", (long long)facts.ttl_ms);
        }
        if (facts.parent_id != 0) {
            scenario_print(story->answer, " parent %lld", (long long)facts.parent_id);
        }
        if (facts.checkpoint_ms != 0) {
            scenario_print(story->answer, " checkpoint %lld", (long long)facts.checkpoint_ms);
        }
        for (struct record *record = lease_table_first_key(leases, facts.id); record != NULL;
             record = record->lease_next) {
            if (n_keys == sizeof keys / sizeof keys[0]) {
                die(story, "too many keys to list");
            }
            if (!key_space_equal(record_space(record), KEY_SPACE_LEASE_HOOKS)) {
                keys[n_keys++] = record;
            }
        }
        qsort(keys, n_keys, sizeof keys[0], compare_records);
        for (size_t key = 0; key < n_keys; key++) {
            scenario_print(story->answer, "%s%.*s", key == 0 ? " keys " : " ",
                           (int)record_key(keys[key]).size,
                           (const char *)record_key(keys[key]).data);
        }
        scenario_print(story->answer, "\n");
    }
    free(ids);
}

static void play_ended(struct story *story) {
    static const char *const reasons[] = {"", "expired", "revoked", "with its parent"};
    struct lease_ended ended[10];
    size_t n = lease_table_ended(state_machine_leases(story->machine), ended,
                                 sizeof ended / sizeof ended[0]);
    if (n == 0) {
        scenario_print(story->answer, "none\n");
    }
    for (size_t i = 0; i < n; i++) {
        scenario_print(story->answer, "%lld ended at %lld: %s\n", (long long)ended[i].id,
                       (long long)ended[i].wall_ms, reasons[ended[i].reason]);
    }
}

/* --- Watching. --- */

static bool deliver(void *data, const struct watch_batch *batch) {
    struct watch *watch = data;
    if (watch->is_full) {
        return false;
    }
    for (size_t i = 0; i < batch->n_events; i++) {
        print_record(&watch->pending, batch->events[i]);
    }
    return true;
}

static void compacted(void *data, int64_t compacted_revision) {
    struct watch *watch = data;
    watch->watcher = NULL;
    scenario_print(&watch->pending, "canceled: compacted at %lld\n", (long long)compacted_revision);
}

static struct watch *find_watch(struct story *story, const char *name) {
    for (size_t i = 0; i < WATCHERS_MAX; i++) {
        if (strcmp(story->watches[i].name, name) == 0) {
            return &story->watches[i];
        }
    }
    die(story, "no such watcher, or too many");
    return NULL;
}

static void play_watch(struct story *story) {
    static const struct watcher_callbacks callbacks = {.deliver = deliver, .compacted = compacted};
    struct watch *watch = find_watch(story, "");
    snprintf(watch->name, sizeof watch->name, "%s", word(story, 1));
    struct watcher_options options = {.space = KEY_SPACE_ETCD,
                                      .key = copy_bytes(story, word(story, 2)),
                                      .range_end = end_option(story),
                                      .start_revision = number_option(story, "rev"),
                                      .without_puts = flag(story, "no-put"),
                                      .without_deletes = flag(story, "no-delete"),
                                      .callbacks = &callbacks,
                                      .data = watch};
    watch->watcher = watch_hub_add(state_machine_watches(story->machine), &options);
}

static void play_unwatch(struct story *story) {
    struct watch *watch = find_watch(story, word(story, 1));
    watch_hub_remove(state_machine_watches(story->machine), watch->watcher);
    watch->watcher = NULL;
    watch->name[0] = '\0';
    watch->pending.size = 0;
}

static void play_events(struct story *story) {
    struct watch *watch = find_watch(story, word(story, 1));
    publish(story);
    if (watch->pending.size == 0) {
        scenario_print(story->answer, "no events\n");
    }
    buffer_append(story->answer, watch->pending.data, watch->pending.size);
    watch->pending.size = 0;
}

static void play_fill(struct story *story) {
    find_watch(story, word(story, 1))->is_full = true;
}

static void play_drain(struct story *story) {
    struct watch *watch = find_watch(story, word(story, 1));
    watch->is_full = false;
    if (watch->watcher != NULL) {
        watch_hub_resume(state_machine_watches(story->machine), watch->watcher);
    }
}

static void play_progress(struct story *story) {
    struct watch *watch = find_watch(story, word(story, 1));
    bool is_current = watcher_is_current(state_machine_watches(story->machine), watch->watcher);
    scenario_print(story->answer, "%s at %lld\n", is_current ? "current" : "behind",
                   (long long)watcher_revision(watch->watcher));
}

/* --- Leaders and snapshots. --- */

static void play_lead(struct story *story) {
    story->context.term++;
    lease_table_lead(state_machine_leases(story->machine), story->context.now_ms);
    scenario_print(story->answer, "leading in term %llu\n",
                   (unsigned long long)story->context.term);
}

static void play_follow(struct story *story) {
    lease_table_follow(state_machine_leases(story->machine));
}

static void take_snapshot(struct story *story, struct buffer *buffer) {
    struct snapshot_view *view = snapshot_view_open(story->machine);
    snapshot_view_write(view, buffer);
    snapshot_view_close(view);
}

static void play_snapshot_restore(struct story *story) {
    struct buffer before;
    struct buffer after;
    buffer_init(&before);
    buffer_init(&after);
    take_snapshot(story, &before);
    enum status status = state_machine_restore(story->machine, bytes_of(before.data, before.size));
    take_snapshot(story, &after);
    bool is_equal =
        bytes_equal(bytes_of(before.data, before.size), bytes_of(after.data, after.size));
    scenario_print(story->answer, "%s, %s\n", status_text(status),
                   is_equal ? "equal bytes" : "OTHER BYTES");
    buffer_clear(&before);
    buffer_clear(&after);
}

/* --- Rules: those of tests/rules. --- */

static void play_cluster_version(struct story *story) {
    play_simple(story, (struct command){.type = COMMAND_CLUSTER_VERSION,
                                        .cluster_version = {.version = (uint32_t)to_number(
                                                                story, word(story, 1))}});
}

/* False: it was refused, and said so. */
static bool run_rule(struct story *story, uint32_t number, struct buffer *request,
                     struct outcome *outcome) {
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = number, .request = bytes_of(request->data, request->size)}};
    bool is_done = apply(story, &command, outcome);
    buffer_clear(request);
    return is_done;
}

static void play_lock(struct story *story) {
    struct buffer request;
    struct trial_locked locked;
    buffer_init(&request);
    trial_request_lock(&request, word(story, 1), to_number(story, word(story, 2)),
                       to_number(story, word(story, 3)));
    struct outcome outcome;
    if (!run_rule(story, TRIAL_LOCK, &request, &outcome)) {
        return;
    }
    if (!trial_answer_locked(outcome.rule.answer, &locked)) {
        die(story, "an answer that cannot be read");
    }
    if (locked.is_held) {
        scenario_print(story->answer, "held by token %lld, revision %lld\n",
                       (long long)locked.token, (long long)outcome.revision);
    } else {
        scenario_print(story->answer, "queued, revision %lld\n", (long long)outcome.revision);
    }
}

static void play_rule(struct story *story, uint32_t number, struct buffer *request) {
    struct outcome outcome;
    if (run_rule(story, number, request, &outcome)) {
        say_done(story, &outcome);
    }
}

static void play_unlock(struct story *story) {
    struct buffer request;
    buffer_init(&request);
    trial_request_unlock(&request, word(story, 1), to_number(story, word(story, 2)));
    play_rule(story, TRIAL_UNLOCK, &request);
}

static void play_end(struct story *story) {
    struct buffer request;
    buffer_init(&request);
    trial_request_end(&request, to_number(story, word(story, 1)));
    play_rule(story, TRIAL_END, &request);
}

static void play_bad(struct story *story) {
    struct buffer request;
    buffer_init(&request);
    trial_request_bad(&request, (enum trial_fault)to_number(story, word(story, 1)), 1000000);
    play_rule(story, TRIAL_BAD, &request);
}

static bool print_trial_key(void *context, const struct record *record) {
    print_record(context, record);
    return true;
}

static void play_rule_keys(struct story *story) {
    key_store_visit(state_machine_keys(story->machine), TRIAL_SPACE, bytes_of("", 1),
                    bytes_of("", 1), print_trial_key, story->answer);
}

/* --- The player. --- */

static const struct {
    const char *name;
    void (*play)(struct story *story);
} commands[] = {
    {"put", play_put}, /* KEY VALUE [lease=ID] [prev] [keep-value] [keep-lease] */
    {"get", play_get}, /* KEY [to=END] [rev=] [limit=] [sort= [desc]] [count] [min-mod=] … */
    {"del", play_del}, /* KEY [to=END] [prev] */
    {"txn", play_txn}, /* then lines if, then, else, end */
    {"compact", play_compact},       /* REVISION */
    {"grant", play_grant},           /* ID TTL_MS|forever [parent=ID] */
    {"revoke", play_revoke},         /* ID */
    {"set-ttl", play_set_ttl},       /* ID TTL_MS */
    {"checkpoint", play_checkpoint}, /* ID REMAINING_MS */
    {"expire", play_expire},         /* term=TERM ID... */
    {"renew", play_renew},           /* ID */
    {"remaining", play_remaining},   /* ID */
    {"advance", play_advance},       /* MS: time passes, what is due is proposed and applied */
    {"leases", play_leases},
    {"ended", play_ended},
    {"watch", play_watch},       /* NAME KEY [to=END] [rev=] [no-put] [no-delete] */
    {"unwatch", play_unwatch},   /* NAME */
    {"events", play_events},     /* NAME: what it was given since it was asked last */
    {"fill", play_fill},         /* NAME: it takes no more */
    {"drain", play_drain},       /* NAME: it takes more again */
    {"progress", play_progress}, /* NAME */
    {"lead", play_lead},
    {"follow", play_follow},
    {"snapshot-restore", play_snapshot_restore},
    {"cluster-version", play_cluster_version}, /* NUMBER */
    {"lock", play_lock},                       /* NAME LEASE TTL_MS */
    {"unlock", play_unlock},                   /* NAME LEASE */
    {"end", play_end},                         /* LEASE */
    {"bad", play_bad},                         /* FAULT: see enum trial_fault */
    {"rule-keys", play_rule_keys},             /* of the rules' space */
};

static void *story_begin(void) {
    struct story *story = calloc(1, sizeof *story);
    if (story == NULL) {
        abort();
    }
    story->machine = state_machine_create(&(struct state_machine_options){.rules = &trial_rules});
    arena_init(&story->arena);
    buffer_init(&story->log);
    for (size_t i = 0; i < WATCHERS_MAX; i++) {
        buffer_init(&story->watches[i].pending);
    }
    return story;
}

static void story_end(void *state) {
    struct story *story = state;
    state_machine_destroy(story->machine);
    arena_clear(&story->arena);
    buffer_clear(&story->log);
    for (size_t i = 0; i < WATCHERS_MAX; i++) {
        buffer_clear(&story->watches[i].pending);
    }
    free(story);
}

static void story_play(void *state, const struct scenario_block *block, struct buffer *answer) {
    struct story *story = state;
    story->block = block;
    story->answer = answer;
    for (story->line = 0; story->line < block->n_lines; story->line++) {
        split_line(story);
        size_t i = 0;
        while (i < sizeof commands / sizeof commands[0] &&
               strcmp(commands[i].name, word(story, 0)) != 0) {
            i++;
        }
        if (i == sizeof commands / sizeof commands[0]) {
            die(story, "an unknown command");
        }
        commands[i].play(story);
        publish(story);
        arena_reset(&story->arena);
    }
}

int main(int argc, char **argv) {
    const struct scenario_player player = {
        .begin = story_begin, .play = story_play, .end = story_end};
    return scenario_main(argc, argv, &player);
}
