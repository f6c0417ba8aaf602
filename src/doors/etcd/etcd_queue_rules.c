/* Pure: run by every replica when the command is applied, with the same result. */
#include "doors/etcd/etcd_queue_rules.h"

#include "core/cluster_version.h"
#include "core/key_store.h"
#include "core/key_work.h"

#include <string.h>

/* A sign and 16 digits. */
enum { LEASE_TEXT_SIZE_MAX = 17 };

/* --- Keys. --- */

/* As Go's %x prints an int64: the sign, then the magnitude without leading zeros. */
static size_t lease_text(int64_t lease_id, uint8_t out_text[LEASE_TEXT_SIZE_MAX]) {
    uint64_t magnitude = lease_id < 0 ? -(uint64_t)lease_id : (uint64_t)lease_id;
    size_t n_digits = 1;
    while (n_digits < 16 && magnitude >> (4 * n_digits) != 0) {
        n_digits++;
    }
    size_t size = 0;
    if (lease_id < 0) {
        out_text[size++] = '-';
    }
    for (size_t i = n_digits; i > 0; i--) {
        out_text[size++] = (uint8_t) "0123456789abcdef"[magnitude >> (4 * (i - 1)) & 15];
    }
    return size;
}

static struct bytes join_text(struct arena *arena, struct bytes name, char separator,
                              struct bytes text) {
    uint8_t *key = arena_alloc(arena, name.size + 1 + text.size);
    if (name.size > 0) {
        memcpy(key, name.data, name.size);
    }
    key[name.size] = (uint8_t)separator;
    if (text.size > 0) {
        memcpy(key + name.size + 1, text.data, text.size);
    }
    return bytes_of(key, name.size + 1 + text.size);
}

struct key_range etcd_queue_range(struct arena *arena, struct bytes name) {
    return (struct key_range){.space = KEY_SPACE_ETCD,
                              .key = join_text(arena, name, '/', bytes_of(NULL, 0)),
                              .range_end = join_text(arena, name, '/' + 1, bytes_of(NULL, 0))};
}

struct bytes etcd_queue_key(struct arena *arena, struct bytes name, int64_t lease_id) {
    uint8_t text[LEASE_TEXT_SIZE_MAX];
    size_t size = lease_text(lease_id, text);
    return join_text(arena, name, '/', bytes_of(text, size));
}

/* True when the key is that of its lease in some queue. */
static bool is_of_queue(const struct record *record) {
    uint8_t text[1 + LEASE_TEXT_SIZE_MAX] = "/";
    size_t size = 1 + lease_text(record->lease_id, text + 1);
    struct bytes key = record_key(record);
    return record->lease_id != 0 && key.size >= size &&
           memcmp(key.data + key.size - size, text, size) == 0;
}

/* --- The order. --- */

/* Of a key that was there before, in a queue of more it is not told whether it is first. */
enum { SEARCH_RECORDS_MAX = RULE_RECORDS_MAX / 2 };

struct search {
    int64_t create_revision;
    size_t n_seen;
    bool is_behind;
};

static bool look_for_earlier(void *context, const struct record *record) {
    struct search *search = context;
    search->is_behind = record->create_revision < search->create_revision;
    return !search->is_behind && ++search->n_seen < SEARCH_RECORDS_MAX;
}

static bool search_earlier(struct rule_run *run, struct bytes name, struct search *search) {
    struct key_range range = etcd_queue_range(rule_arena(run), name);
    return rule_visit(run, range.space, range.key, range.range_end, look_for_earlier, search) &&
           !search->is_behind;
}

/* Also true when SEARCH_RECORDS_MAX keys were seen, and none is earlier. */
static bool may_be_first(struct rule_run *run, struct bytes name, int64_t create_revision) {
    struct search search = {.create_revision = create_revision};
    return search_earlier(run, name, &search);
}

/* False in a queue that is too long to tell. */
static bool is_first(struct rule_run *run, struct bytes name, int64_t create_revision) {
    struct search search = {.create_revision = create_revision};
    return search_earlier(run, name, &search) && search.n_seen < SEARCH_RECORDS_MAX;
}

/* What a search may look at. */
static size_t search_work(const struct key_store *keys, struct bytes name) {
    struct arena arena;
    arena_init(&arena);
    struct key_range range = etcd_queue_range(&arena, name);
    size_t n = key_store_count(keys, range.space, range.key, range.range_end);
    arena_clear(&arena);
    return n < SEARCH_RECORDS_MAX ? n : SEARCH_RECORDS_MAX;
}

/* --- Join. --- */

void etcd_join_encode(struct buffer *out, const struct etcd_join *join) {
    buffer_put_bytes(out, join->name);
    buffer_put_bytes(out, join->value);
    buffer_put_zigzag(out, join->lease_id);
    buffer_put_varint(out, (uint64_t)join->ttl_ms);
    buffer_put_u8(out, join->keeps_value);
}

static void put_joined(struct buffer *answer, const struct etcd_joined *joined) {
    buffer_put_zigzag(answer, joined->lease_id);
    buffer_put_zigzag(answer, joined->create_revision);
    buffer_put_zigzag(answer, joined->version);
    buffer_put_u32(answer, joined->epoch);
    buffer_put_u8(answer, joined->is_first);
}

bool etcd_joined_decode(struct bytes answer, struct etcd_joined *out_joined) {
    struct reader reader;
    reader_init(&reader, answer);
    out_joined->lease_id = reader_get_zigzag(&reader);
    out_joined->create_revision = reader_get_zigzag(&reader);
    out_joined->version = reader_get_zigzag(&reader);
    out_joined->epoch = reader_get_u32(&reader);
    out_joined->is_first = reader_get_u8(&reader) != 0;
    return !reader.failed && reader_left(&reader) == 0;
}

static bool read_join(struct bytes request, struct etcd_join *out_join) {
    struct reader reader;
    reader_init(&reader, request);
    out_join->name = reader_get_bytes(&reader);
    out_join->value = reader_get_bytes(&reader);
    out_join->lease_id = reader_get_zigzag(&reader);
    out_join->ttl_ms = (int64_t)reader_get_varint(&reader);
    out_join->keeps_value = reader_get_u8(&reader) != 0;
    return !reader.failed && reader_left(&reader) == 0;
}

/* A key that is there may have to be compared with all others. */
static size_t estimate_join(const struct key_store *keys, const struct lease_table *leases,
                            struct bytes request) {
    struct etcd_join join;
    struct arena arena;
    (void)leases;
    if (!read_join(request, &join) || join.lease_id == 0) {
        return 0;
    }
    arena_init(&arena);
    bool is_there = key_store_find(keys, KEY_SPACE_ETCD,
                                   etcd_queue_key(&arena, join.name, join.lease_id)) != NULL;
    arena_clear(&arena);
    return is_there ? search_work(keys, join.name) : 0;
}

static enum status need_lease(struct rule_run *run, const struct etcd_join *join,
                              struct lease_facts *out_facts) {
    int64_t lease_id = join->lease_id;
    if (lease_id == 0) {
        enum status status =
            rule_lease_grant(run, &(struct rule_lease){.ttl_ms = join->ttl_ms}, &lease_id);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return rule_lease_find(run, lease_id, out_facts) ? STATUS_OK : STATUS_LEASE_NOT_FOUND;
}

/* Whoever has it already is told so: its time counts anew, and no key is written. */
static bool renew_if_held(struct rule_run *run, const struct etcd_join *join,
                          const struct lease_facts *lease, const struct record *shared) {
    return shared->lease_id == lease->id &&
           (join->keeps_value || bytes_equal(record_value(shared), join->value)) &&
           is_first(run, join->name, shared->create_revision) &&
           rule_lease_set_ttl(run, lease->id, lease->ttl_ms) == STATUS_OK;
}

/* A new key is last, so the first other key that is seen tells whether it is first. */
static enum status run_join(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct etcd_join join;
    struct lease_facts lease;
    if (!read_join(request, &join)) {
        return STATUS_MALFORMED;
    }
    enum status status = need_lease(run, &join, &lease);
    if (status != STATUS_OK) {
        return status;
    }
    struct bytes key = etcd_queue_key(rule_arena(run), join.name, lease.id);
    const struct record *shared = rule_get(run, KEY_SPACE_ETCD, key);
    struct etcd_joined joined = {.lease_id = lease.id, .version = 1, .epoch = lease.epoch};
    if (shared == NULL) {
        joined.create_revision = rule_put(run, KEY_SPACE_ETCD, key, join.value, lease.id);
        joined.is_first = may_be_first(run, join.name, joined.create_revision);
    } else if (renew_if_held(run, &join, &lease, shared)) {
        joined.create_revision = shared->create_revision;
        joined.version = shared->version;
        joined.epoch = 0;
        joined.is_first = true;
    } else {
        struct bytes value = join.keeps_value ? record_value(shared) : join.value;
        joined.version = shared->version + 1;
        joined.epoch = 0;
        joined.create_revision = rule_put(run, KEY_SPACE_ETCD, key, value, lease.id);
    }
    put_joined(answer, &joined);
    return STATUS_OK;
}

const struct rule etcd_rule_join = {.number = ETCD_RULE_JOIN,
                                    .name = "etcd queue join",
                                    .since_version = CLUSTER_VERSION_RULES,
                                    .spaces = {KEY_SPACE_ETCD},
                                    .run = run_join,
                                    .estimate = estimate_join};

/* --- Withdraw. --- */

void etcd_withdrawal_encode(struct buffer *out, const struct etcd_withdrawal *withdrawal) {
    buffer_put_bytes(out, withdrawal->name);
    buffer_put_zigzag(out, withdrawal->lease_id);
    buffer_put_zigzag(out, withdrawal->create_revision);
    buffer_put_zigzag(out, withdrawal->version);
    buffer_put_u32(out, withdrawal->epoch);
    buffer_put_u8(out, withdrawal->ends_lease);
}

/* No call came to share the key. */
static bool is_unshared(struct rule_run *run, const struct etcd_withdrawal *withdrawal,
                        const struct record *record) {
    struct lease_facts facts;
    return record->version == 1 && rule_lease_find(run, withdrawal->lease_id, &facts) &&
           facts.epoch == withdrawal->epoch;
}

static bool may_withdraw(struct rule_run *run, const struct etcd_withdrawal *withdrawal,
                         const struct record *record) {
    return record->create_revision == withdrawal->create_revision &&
           record->version == withdrawal->version &&
           (is_unshared(run, withdrawal, record) ||
            !may_be_first(run, withdrawal->name, record->create_revision));
}

static bool read_withdrawal(struct bytes request, struct etcd_withdrawal *out_withdrawal) {
    struct reader reader;
    reader_init(&reader, request);
    out_withdrawal->name = reader_get_bytes(&reader);
    out_withdrawal->lease_id = reader_get_zigzag(&reader);
    out_withdrawal->create_revision = reader_get_zigzag(&reader);
    out_withdrawal->version = reader_get_zigzag(&reader);
    out_withdrawal->epoch = reader_get_u32(&reader);
    out_withdrawal->ends_lease = reader_get_u8(&reader) != 0;
    return !reader.failed && reader_left(&reader) == 0;
}

static size_t estimate_withdraw(const struct key_store *keys, const struct lease_table *leases,
                                struct bytes request) {
    struct etcd_withdrawal withdrawal;
    size_t work = 0;
    if (!read_withdrawal(request, &withdrawal)) {
        return 0;
    }
    struct lease_facts facts;
    bool is_shared =
        withdrawal.version > 1 ||
        (lease_table_find(leases, withdrawal.lease_id, &facts) && facts.epoch != withdrawal.epoch);
    if (is_shared) {
        work += search_work(keys, withdrawal.name);
    }
    if (withdrawal.ends_lease) {
        work += KEY_WORK_A_DELETE * lease_table_key_count(leases, withdrawal.lease_id);
    }
    return work;
}

static enum status run_withdraw(struct rule_run *run, struct bytes request, struct buffer *answer) {
    (void)answer;
    struct etcd_withdrawal withdrawal;
    if (!read_withdrawal(request, &withdrawal)) {
        return STATUS_MALFORMED;
    }
    struct bytes key = etcd_queue_key(rule_arena(run), withdrawal.name, withdrawal.lease_id);
    const struct record *record = rule_get(run, KEY_SPACE_ETCD, key);
    if (record != NULL && !may_withdraw(run, &withdrawal, record)) {
        return STATUS_OK;
    }
    if (withdrawal.ends_lease) {
        (void)rule_lease_end(run, withdrawal.lease_id, LEASE_END_REVOKED);
    } else if (record != NULL) {
        (void)rule_delete(run, KEY_SPACE_ETCD, key);
    }
    return STATUS_OK;
}

const struct rule etcd_rule_withdraw = {.number = ETCD_RULE_WITHDRAW,
                                        .name = "etcd queue withdraw",
                                        .since_version = CLUSTER_VERSION_RULES,
                                        .spaces = {KEY_SPACE_ETCD},
                                        .run = run_withdraw,
                                        .estimate = estimate_withdraw};

/* --- Release. --- */

void etcd_release_encode(struct buffer *out, const struct etcd_release *release) {
    buffer_put_bytes(out, release->key);
    buffer_put_zigzag(out, release->revision);
    buffer_put_u8(out, release->takes_any_lock);
}

static enum status run_release(struct rule_run *run, struct bytes request, struct buffer *answer) {
    (void)answer;
    struct reader reader;
    reader_init(&reader, request);
    struct etcd_release release;
    release.key = reader_get_bytes(&reader);
    release.revision = reader_get_zigzag(&reader);
    release.takes_any_lock = reader_get_u8(&reader) != 0;
    if (reader.failed || reader_left(&reader) != 0) {
        return STATUS_MALFORMED;
    }
    if (release.key.size == 0) {
        return STATUS_KEY_EMPTY;
    }
    const struct record *record = rule_get(run, KEY_SPACE_ETCD, release.key);
    if (record == NULL) {
        return STATUS_OK;
    }
    bool is_meant = release.takes_any_lock && release.revision == 0
                        ? is_of_queue(record)
                        : record->create_revision == release.revision;
    if (is_meant) {
        (void)rule_delete(run, KEY_SPACE_ETCD, release.key);
    }
    return STATUS_OK;
}

const struct rule etcd_rule_release = {.number = ETCD_RULE_RELEASE,
                                       .name = "etcd queue release",
                                       .since_version = CLUSTER_VERSION_RULES,
                                       .spaces = {KEY_SPACE_ETCD},
                                       .run = run_release};

/* --- Proclaim. --- */

void etcd_proclamation_encode(struct buffer *out, const struct etcd_proclamation *proclamation) {
    buffer_put_bytes(out, proclamation->key);
    buffer_put_bytes(out, proclamation->value);
    buffer_put_zigzag(out, proclamation->revision);
    buffer_put_zigzag(out, proclamation->lease_id);
}

bool etcd_proclaimed_decode(struct bytes answer, bool *out_is_done) {
    if (answer.size != 1) {
        return false;
    }
    *out_is_done = answer.data[0] != 0;
    return true;
}

static enum status run_proclaim(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct reader reader;
    reader_init(&reader, request);
    struct etcd_proclamation proclamation;
    proclamation.key = reader_get_bytes(&reader);
    proclamation.value = reader_get_bytes(&reader);
    proclamation.revision = reader_get_zigzag(&reader);
    proclamation.lease_id = reader_get_zigzag(&reader);
    if (reader.failed || reader_left(&reader) != 0) {
        return STATUS_MALFORMED;
    }
    if (proclamation.key.size == 0) {
        return STATUS_KEY_EMPTY;
    }
    const struct record *record = rule_get(run, KEY_SPACE_ETCD, proclamation.key);
    bool is_meant = record != NULL && record->create_revision == proclamation.revision;
    if (is_meant) {
        int64_t lease_id = proclamation.lease_id != 0 ? proclamation.lease_id : record->lease_id;
        (void)rule_put(run, KEY_SPACE_ETCD, proclamation.key, proclamation.value, lease_id);
    }
    buffer_put_u8(answer, is_meant);
    return STATUS_OK;
}

const struct rule etcd_rule_proclaim = {.number = ETCD_RULE_PROCLAIM,
                                        .name = "etcd queue proclaim",
                                        .since_version = CLUSTER_VERSION_RULES,
                                        .spaces = {KEY_SPACE_ETCD},
                                        .run = run_proclaim};
