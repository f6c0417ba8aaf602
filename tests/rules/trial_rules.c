#include "trial_rules.h"

#include "core/cluster_version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE_MAX = 64, KEY_SIZE_MAX = NAME_SIZE_MAX + 64 };

struct text {
    char text[KEY_SIZE_MAX];
};

static struct bytes key_of(struct text *text, const char *kind, struct bytes name) {
    int size = snprintf(text->text, sizeof text->text, "%s/%.*s", kind, (int)name.size,
                        (const char *)name.data);
    return bytes_of(text->text, (size_t)size);
}

static struct bytes read_name(struct reader *reader) {
    struct bytes name = reader_get_bytes(reader);
    if (name.size == 0 || name.size > NAME_SIZE_MAX || memchr(name.data, '/', name.size) != NULL) {
        reader->failed = true;
    }
    return name;
}

static bool is_read(const struct reader *reader) {
    return !reader->failed && reader_left(reader) == 0;
}

/* --- The counter. --- */

static enum status run_count(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct reader reader;
    struct text text;
    reader_init(&reader, request);
    struct bytes name = read_name(&reader);
    if (!is_read(&reader)) {
        return STATUS_MALFORMED;
    }
    buffer_put_zigzag(answer, rule_count_up(run, TRIAL_SPACE, key_of(&text, "count", name)));
    return STATUS_OK;
}

/* --- The lock. The holder's key is attached to its lease, and so is each place in the queue. ---
 */

/* What the hook of a holder is asked: the name with its size in front, as a command has it. */
static struct bytes hook_request(struct rule_run *run, struct bytes name) {
    uint8_t *bytes = arena_alloc(rule_arena(run), 1 + name.size);
    bytes[0] = (uint8_t)name.size;
    memcpy(bytes + 1, name.data, name.size);
    return bytes_of(bytes, 1 + name.size);
}

static enum status hold(struct rule_run *run, struct bytes name, int64_t lease_id,
                        int64_t *out_token) {
    struct text text;
    *out_token =
        rule_put(run, TRIAL_SPACE, key_of(&text, "holder", name), bytes_of(NULL, 0), lease_id);
    return rule_on_lease_end(run, lease_id, TRIAL_HANDOVER, hook_request(run, name));
}

static enum status queue(struct rule_run *run, struct bytes name, int64_t lease_id) {
    struct text text;
    int64_t place = rule_count_up(run, TRIAL_SPACE, key_of(&text, "places", name));
    struct text queue_text;
    struct bytes key = key_of(&queue_text, "queue", name);
    int size = snprintf(queue_text.text + key.size, sizeof queue_text.text - key.size, "/%019lld",
                        (long long)place);
    rule_put(run, TRIAL_SPACE, bytes_of(queue_text.text, key.size + (size_t)size),
             bytes_of(NULL, 0), lease_id);
    return STATUS_OK;
}

static enum status run_lock(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct reader reader;
    struct text text;
    reader_init(&reader, request);
    struct bytes name = read_name(&reader);
    int64_t lease_id = reader_get_zigzag(&reader);
    int64_t ttl_ms = (int64_t)reader_get_varint(&reader);
    if (!is_read(&reader)) {
        return STATUS_MALFORMED;
    }
    struct lease_facts facts;
    if (lease_id == 0 || !rule_lease_find(run, lease_id, &facts)) {
        struct rule_lease lease = {.id = lease_id, .ttl_ms = ttl_ms};
        enum status status = rule_lease_grant(run, &lease, &lease_id);
        if (status != STATUS_OK) {
            return status;
        }
    }
    int64_t token = 0;
    bool is_held = rule_get(run, TRIAL_SPACE, key_of(&text, "holder", name)) == NULL;
    enum status status = is_held ? hold(run, name, lease_id, &token) : queue(run, name, lease_id);
    buffer_put_u8(answer, is_held);
    buffer_put_zigzag(answer, token);
    buffer_put_zigzag(answer, lease_id);
    return status;
}

static bool take_first(void *context, const struct record *record) {
    const struct record **first = context;
    *first = record;
    return false;
}

static enum status hand_over(struct rule_run *run, struct bytes name) {
    struct text text;
    if (rule_get(run, TRIAL_SPACE, key_of(&text, "holder", name)) != NULL) {
        return STATUS_OK;
    }
    struct text from_text;
    struct text to_text;
    struct bytes from = key_of(&from_text, "queue", name);
    struct bytes to = key_of(&to_text, "queue", name);
    from_text.text[from.size] = '/';
    to_text.text[to.size] = '/' + 1;
    const struct record *first = NULL;
    if (!rule_visit(run, TRIAL_SPACE, bytes_of(from.data, from.size + 1),
                    bytes_of(to.data, to.size + 1), take_first, &first) ||
        first == NULL) {
        return STATUS_OK;
    }
    int64_t lease_id = first->lease_id;
    int64_t token;
    rule_delete(run, TRIAL_SPACE, record_key(first));
    return hold(run, name, lease_id, &token);
}

static enum status run_unlock(struct rule_run *run, struct bytes request, struct buffer *answer) {
    (void)answer;
    struct reader reader;
    struct text text;
    reader_init(&reader, request);
    struct bytes name = read_name(&reader);
    int64_t lease_id = reader_get_zigzag(&reader);
    if (!is_read(&reader)) {
        return STATUS_MALFORMED;
    }
    struct bytes key = key_of(&text, "holder", name);
    const struct record *holder = rule_get(run, TRIAL_SPACE, key);
    if (holder == NULL || holder->lease_id != lease_id) {
        return STATUS_KEY_NOT_FOUND;
    }
    rule_cancel_on_lease_end(run, lease_id, TRIAL_HANDOVER, hook_request(run, name));
    rule_delete(run, TRIAL_SPACE, key);
    return hand_over(run, name);
}

static enum status run_handover(struct rule_run *run, struct bytes request, struct buffer *answer) {
    (void)answer;
    struct reader reader;
    reader_init(&reader, request);
    struct bytes name = read_name(&reader);
    return is_read(&reader) ? hand_over(run, name) : STATUS_MALFORMED;
}

static enum status run_end(struct rule_run *run, struct bytes request, struct buffer *answer) {
    (void)answer;
    struct reader reader;
    reader_init(&reader, request);
    int64_t lease_id = reader_get_zigzag(&reader);
    return is_read(&reader) ? rule_lease_end(run, lease_id, LEASE_END_REVOKED) : STATUS_MALFORMED;
}

/* --- Rules that misbehave. --- */

static int64_t put_numbered(struct rule_run *run, const char *kind, uint64_t number) {
    struct text text;
    char digits[24];
    snprintf(digits, sizeof digits, "%020llu", (unsigned long long)number);
    return rule_put(run, TRIAL_SPACE, key_of(&text, kind, bytes_from_text(digits)),
                    bytes_from_text("bad"), 0);
}

static enum status fail_half_way(struct rule_run *run) {
    struct rule_lease lease = {.ttl_ms = 1000};
    int64_t lease_id;
    rule_lease_grant(run, &lease, &lease_id);
    rule_put(run, TRIAL_SPACE, bytes_from_text("half"), bytes_from_text("way"), lease_id);
    rule_on_lease_end(run, lease_id, TRIAL_COUNT, bytes_from_text("x"));
    rule_delete(run, TRIAL_SPACE, bytes_from_text("there"));
    rule_count_up(run, TRIAL_SPACE, bytes_from_text("counted"));
    rule_lease_end(run, lease_id, LEASE_END_REVOKED);
    return STATUS_KEY_NOT_FOUND;
}

static bool look(void *context, const struct record *record) {
    (void)record;
    uint64_t *left = context;
    return --*left > 0;
}

static bool put_meanwhile(void *context, const struct record *record) {
    (void)record;
    put_numbered(context, "meanwhile", 1);
    return true;
}

static enum status end_forever(struct rule_run *run) {
    static const uint8_t request[] = {TRIAL_ENDS_FOREVER, 0};
    struct rule_lease lease = {.ttl_ms = 1000};
    int64_t lease_id;
    enum status status = rule_lease_grant(run, &lease, &lease_id);
    if (status == STATUS_OK) {
        put_numbered(run, "forever", (uint64_t)lease_id);
        status = rule_on_lease_end(run, lease_id, TRIAL_BAD, bytes_of(request, sizeof request));
    }
    return status == STATUS_OK ? rule_lease_end(run, lease_id, LEASE_END_REVOKED) : status;
}

static enum status run_bad(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct reader reader;
    reader_init(&reader, request);
    uint8_t fault = reader_get_u8(&reader);
    uint64_t n = reader_get_varint(&reader);
    if (!is_read(&reader)) {
        return STATUS_MALFORMED;
    }
    switch (fault) {
    case TRIAL_FAILS_HALF_WAY:
        return fail_half_way(run);
    case TRIAL_FAILS_AFTER_PUTS:
        for (uint64_t i = 0; i < n; i++) {
            put_numbered(run, "bad", i);
        }
        return STATUS_KEY_NOT_FOUND;
    case TRIAL_LOOKS_AT:
        rule_visit(run, TRIAL_SPACE, bytes_of("", 1), bytes_of("", 1), look, &n);
        return STATUS_OK;
    case TRIAL_CHANGES:
        for (uint64_t i = 0; i < n && put_numbered(run, "bad", i) != 0; i++) {
        }
        return STATUS_OK;
    case TRIAL_WRITES: {
        uint8_t *value = arena_calloc(rule_arena(run), n, 1);
        rule_put(run, TRIAL_SPACE, bytes_from_text("large"), bytes_of(value, n), 0);
        return STATUS_OK;
    }
    case TRIAL_ANSWERS:
        rule_put(run, TRIAL_SPACE, bytes_from_text("answered"), bytes_of(NULL, 0), 0);
        memset(buffer_reserve(answer, n), 'a', n);
        answer->size += n;
        return STATUS_OK;
    case TRIAL_LEAVES_ITS_SPACE:
        put_numbered(run, "bad", 1);
        rule_put(run, KEY_SPACE_ETCD, bytes_from_text("stolen"), bytes_of(NULL, 0), 0);
        return STATUS_OK;
    case TRIAL_READS_OTHERS:
        rule_get(run, KEY_SPACE_ETCD, bytes_from_text("k"));
        put_numbered(run, "bad", 1);
        return STATUS_OK;
    case TRIAL_PUTS_WHILE_VISITING:
        rule_visit(run, TRIAL_SPACE, bytes_of("", 1), bytes_of("", 1), put_meanwhile, run);
        return STATUS_OK;
    case TRIAL_ATTACHES_TO_NOTHING:
        put_numbered(run, "bad", 1);
        rule_put(run, TRIAL_SPACE, bytes_from_text("attached"), bytes_of(NULL, 0), (int64_t)n);
        return STATUS_OK;
    case TRIAL_ENDS_FOREVER:
        return end_forever(run);
    default:
        return STATUS_INVALID;
    }
}

#define TRIAL_RULE(number_, name_, run_)                                                           \
    {                                                                                              \
        .number = number_, .name = name_, .since_version = CLUSTER_VERSION_RULES,                  \
        .spaces = {TRIAL_SPACE, TRIAL_SPACE_OTHER}, .run = run_                                    \
    }

static const struct rule count_rule = TRIAL_RULE(TRIAL_COUNT, "count", run_count);
static const struct rule lock_rule = TRIAL_RULE(TRIAL_LOCK, "lock", run_lock);
static const struct rule unlock_rule = TRIAL_RULE(TRIAL_UNLOCK, "unlock", run_unlock);
static const struct rule handover_rule = TRIAL_RULE(TRIAL_HANDOVER, "handover", run_handover);
static const struct rule end_rule = TRIAL_RULE(TRIAL_END, "end", run_end);
static const struct rule bad_rule = TRIAL_RULE(TRIAL_BAD, "bad", run_bad);
static const struct rule later_rule = {.number = TRIAL_LATER,
                                       .name = "later",
                                       .since_version = CLUSTER_VERSION_KNOWN + 1,
                                       .spaces = {TRIAL_SPACE},
                                       .run = run_count};

static const struct rule *const rules[] = {&bad_rule,   &count_rule, &end_rule,   &handover_rule,
                                           &later_rule, &lock_rule,  &unlock_rule};
const struct rule_set trial_rules = {.rules = rules, .n = sizeof rules / sizeof(rules[0])};

/* --- Requests and answers. --- */

void trial_request_name(struct buffer *buffer, const char *name) {
    buffer_put_bytes(buffer, bytes_from_text(name));
}

void trial_request_lock(struct buffer *buffer, const char *name, int64_t lease_id, int64_t ttl_ms) {
    buffer_put_bytes(buffer, bytes_from_text(name));
    buffer_put_zigzag(buffer, lease_id);
    buffer_put_varint(buffer, (uint64_t)ttl_ms);
}

void trial_request_unlock(struct buffer *buffer, const char *name, int64_t lease_id) {
    buffer_put_bytes(buffer, bytes_from_text(name));
    buffer_put_zigzag(buffer, lease_id);
}

void trial_request_end(struct buffer *buffer, int64_t lease_id) {
    buffer_put_zigzag(buffer, lease_id);
}

void trial_request_bad(struct buffer *buffer, enum trial_fault fault, uint64_t n) {
    buffer_put_u8(buffer, (uint8_t)fault);
    buffer_put_varint(buffer, n);
}

bool trial_answer_locked(struct bytes answer, struct trial_locked *out_locked) {
    struct reader reader;
    reader_init(&reader, answer);
    out_locked->is_held = reader_get_u8(&reader) == 1;
    out_locked->token = reader_get_zigzag(&reader);
    out_locked->lease_id = reader_get_zigzag(&reader);
    return is_read(&reader);
}

bool trial_answer_number(struct bytes answer, int64_t *out_number) {
    struct reader reader;
    reader_init(&reader, answer);
    *out_number = reader_get_zigzag(&reader);
    return is_read(&reader);
}
