#include "core/snapshot.h"

#include "base/crc32.h"
#include "core/cluster_version.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char SNAPSHOT_MAGIC[8] = {'l', 'e', 'a', 's', 'e', 'd', 's', 'n'};
enum {
    FORMAT_FIRST = 1,   /* no members: the cluster's next leader writes them down again */
    FORMAT_MEMBERS = 2, /* of clusters of version 2 */
    FORMAT_SPACES = 3,  /* of clusters of version 3: spaces, owners, the version itself */
    FORMAT_NEWEST = FORMAT_SPACES
};
enum { SNAPSHOT_CHECKSUM_SIZE = 4 };
enum {
    LEASE_HAS_PARENT = 1,
    LEASE_HAS_CHECKPOINT = 2,
    LEASE_HAS_CLASS = 4,
    LEASE_HAS_OWNER = 8 /* one that is not etcd; from FORMAT_SPACES on */
};
enum { RECORD_SAME_KEY = 1, RECORD_TOMBSTONE = 2, RECORD_HAS_LEASE = 4, RECORD_END = 8 };

enum encoder_stage { STAGE_HEAD, STAGE_LEASES, STAGE_REST, STAGE_KEYS, STAGE_DONE };

struct snapshot_encoder {
    struct snapshot_parts parts;
    uint32_t format;
    enum encoder_stage stage;
    uint32_t crc; /* of what was given out */
    /* By ascending id, and how far they are written. */
    struct lease_facts *facts;
    size_t n_facts;
    size_t n_facts_written;
    uint64_t id_before;
    uint32_t epoch_before;
    struct key_view_walk *walk;
    struct bytes key_before;
};

/* --- Leases. --- */

static bool collect_facts(void *context, const struct lease_facts *facts) {
    struct snapshot_encoder *encoder = context;
    encoder->facts[encoder->n_facts++] = *facts;
    return true;
}

static int compare_facts(const void *a, const void *b) {
    int64_t left = ((const struct lease_facts *)a)->id;
    int64_t right = ((const struct lease_facts *)b)->id;
    return (left > right) - (left < right);
}

static uint8_t lease_flags(const struct lease_facts *facts) {
    return (uint8_t)((facts->parent_id != 0 ? LEASE_HAS_PARENT : 0) |
                     (facts->checkpoint_ms != 0 ? LEASE_HAS_CHECKPOINT : 0) |
                     (facts->class != 0 ? LEASE_HAS_CLASS : 0) |
                     (!key_space_equal(facts->owner, KEY_SPACE_ETCD) ? LEASE_HAS_OWNER : 0));
}

static void begin_leases(struct snapshot_encoder *encoder, struct buffer *buffer) {
    const struct lease_view *leases = encoder->parts.leases;
    size_t count = lease_view_count(leases);
    encoder->facts = malloc((count > 0 ? count : 1) * sizeof encoder->facts[0]);
    if (encoder->facts == NULL) {
        abort();
    }
    lease_view_visit(leases, collect_facts, encoder);
    qsort(encoder->facts, encoder->n_facts, sizeof encoder->facts[0], compare_facts);
    buffer_put_varint(buffer, encoder->n_facts);
    buffer_put_u32(buffer, lease_view_epoch(leases));
}

static void encode_lease(struct snapshot_encoder *encoder, struct buffer *buffer) {
    const struct lease_facts *facts = &encoder->facts[encoder->n_facts_written++];
    buffer_put_u8(buffer, lease_flags(facts));
    buffer_put_varint(buffer, (uint64_t)facts->id - encoder->id_before);
    encoder->id_before = (uint64_t)facts->id;
    buffer_put_varint(buffer, (uint64_t)facts->ttl_ms);
    buffer_put_varint(buffer, (uint32_t)(facts->epoch - encoder->epoch_before));
    encoder->epoch_before = facts->epoch;
    if (facts->parent_id != 0) {
        buffer_put_zigzag(buffer, facts->parent_id);
    }
    if (facts->checkpoint_ms != 0) {
        buffer_put_varint(buffer, (uint64_t)facts->checkpoint_ms);
    }
    if (facts->class != 0) {
        buffer_put_u8(buffer, facts->class);
    }
    if (!key_space_equal(facts->owner, KEY_SPACE_ETCD)) {
        assert(encoder->format >= FORMAT_SPACES);
        buffer_put_u8(buffer, facts->owner.value);
    }
}

static enum status decode_leases(struct reader *reader, uint32_t format,
                                 struct lease_table *leases) {
    uint64_t n = reader_get_varint(reader);
    uint32_t epoch = reader_get_u32(reader);
    uint64_t before = 0;
    uint32_t epoch_before = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint8_t flags = reader_get_u8(reader);
        struct lease_facts facts = {.id = (int64_t)(before + reader_get_varint(reader))};
        facts.ttl_ms = (int64_t)reader_get_varint(reader);
        uint64_t epoch_step = reader_get_varint(reader);
        facts.epoch = epoch_before + (uint32_t)epoch_step;
        facts.parent_id = (flags & LEASE_HAS_PARENT) ? reader_get_zigzag(reader) : 0;
        facts.checkpoint_ms =
            (flags & LEASE_HAS_CHECKPOINT) ? (int64_t)reader_get_varint(reader) : 0;
        facts.class = (flags & LEASE_HAS_CLASS) ? reader_get_u8(reader) : 0;
        facts.owner = KEY_SPACE_ETCD;
        if (format >= FORMAT_SPACES && (flags & LEASE_HAS_OWNER)) {
            facts.owner.value = reader_get_u8(reader);
        }
        if (reader->failed || flags != lease_flags(&facts) || epoch_step > UINT32_MAX ||
            (i > 0 && facts.id <= (int64_t)before) ||
            lease_table_restore(leases, &facts) != STATUS_OK) {
            return STATUS_CORRUPT;
        }
        before = (uint64_t)facts.id;
        epoch_before = facts.epoch;
    }
    return lease_table_restore_end(leases, epoch);
}

static void encode_ended(struct buffer *buffer, const struct lease_view *leases) {
    struct lease_ended *ended = malloc(LEASE_ENDED_MAX * sizeof *ended);
    if (ended == NULL) {
        abort();
    }
    size_t n = lease_view_ended(leases, ended, LEASE_ENDED_MAX);
    buffer_put_varint(buffer, n);
    for (size_t i = 0; i < n; i++) {
        buffer_put_zigzag(buffer, ended[i].id);
        buffer_put_varint(buffer, (uint64_t)ended[i].ttl_ms);
        buffer_put_zigzag(buffer, ended[i].wall_ms);
        buffer_put_u8(buffer, (uint8_t)ended[i].reason);
    }
    free(ended);
}

static void decode_ended(struct reader *reader, struct lease_table *leases) {
    uint64_t n = reader_get_varint(reader);
    if (n > LEASE_ENDED_MAX) {
        reader->failed = true;
        return;
    }
    for (uint64_t i = 0; i < n && !reader->failed; i++) {
        struct lease_ended ended = {.id = reader_get_zigzag(reader)};
        ended.ttl_ms = (int64_t)reader_get_varint(reader);
        ended.wall_ms = reader_get_zigzag(reader);
        ended.reason = (enum lease_end)reader_get_u8(reader);
        if (ended.reason < LEASE_END_EXPIRED || ended.reason > LEASE_END_PARENT) {
            reader->failed = true;
        }
        if (!reader->failed) {
            lease_table_restore_ended(leases, &ended);
        }
    }
}

/* --- Keys. --- */

static uint8_t record_flags(const struct record *record, bool same_key) {
    return (uint8_t)((same_key ? RECORD_SAME_KEY : 0) |
                     (record_is_tombstone(record) ? RECORD_TOMBSTONE : 0) |
                     (record->lease_id != 0 ? RECORD_HAS_LEASE : 0));
}

static void encode_record(struct snapshot_encoder *encoder, struct buffer *buffer,
                          const struct record *record) {
    struct bytes key = record_stored_key(record);
    bool same_key = bytes_equal(key, encoder->key_before);
    buffer_put_u8(buffer, record_flags(record, same_key));
    if (!same_key && encoder->format >= FORMAT_SPACES) {
        buffer_put_bytes(buffer, key);
    } else if (!same_key) {
        assert(key_space_equal(record_space(record), KEY_SPACE_ETCD));
        buffer_put_bytes(buffer, record_key(record));
    }
    buffer_put_varint(buffer, (uint64_t)record->mod_revision);
    buffer_put_varint(buffer, record->sub_revision);
    if (!record_is_tombstone(record)) {
        buffer_put_varint(buffer, (uint64_t)record->create_revision);
        buffer_put_varint(buffer, (uint64_t)record->version);
        buffer_put_bytes(buffer, record_value(record));
    }
    if (record->lease_id != 0) {
        buffer_put_zigzag(buffer, record->lease_id);
    }
    encoder->key_before = key;
}

/* A record that stands for what its key is now, not for what it was. Only those are attached to
 * their leases; the record before it is known to be newest once another key begins. */
static enum status attach_newest(struct lease_table *leases, struct record *newest) {
    if (newest == NULL || record_is_tombstone(newest) || newest->lease_id == 0) {
        return STATUS_OK;
    }
    return lease_table_attach(leases, newest) == STATUS_OK ? STATUS_OK : STATUS_CORRUPT;
}

/* A key and its space, as they come. */
struct place {
    struct key_space_id space;
    struct bytes key;
};

static struct place decode_place(struct reader *reader, uint32_t format) {
    struct bytes bytes = reader_get_bytes(reader);
    if (format < FORMAT_SPACES) {
        return (struct place){.space = KEY_SPACE_ETCD, .key = bytes};
    }
    if (bytes.size == 0) {
        return (struct place){0};
    }
    return (struct place){.space = {.value = bytes.data[0]},
                          .key = bytes_of(bytes.data + 1, bytes.size - 1)};
}

static bool places_equal(const struct place *a, const struct place *b) {
    return key_space_equal(a->space, b->space) && bytes_equal(a->key, b->key);
}

/* One record behind its flags. `place` is that of the key before, and then of this one. */
static enum status decode_record(struct reader *reader, uint32_t format, uint8_t flags,
                                 struct key_store *keys, struct place *place,
                                 struct record **out_record) {
    struct place before = *place;
    if ((flags & RECORD_SAME_KEY) == 0) {
        *place = decode_place(reader, format);
    }
    struct record template = {.mod_revision = (int64_t)reader_get_varint(reader)};
    struct bytes value = {0};
    uint64_t sub_revision = reader_get_varint(reader);
    if ((flags & RECORD_TOMBSTONE) == 0) {
        template.create_revision = (int64_t)reader_get_varint(reader);
        template.version = (int64_t)reader_get_varint(reader);
        value = reader_get_bytes(reader);
    }
    template.sub_revision = (uint32_t)sub_revision;
    template.lease_id = (flags & RECORD_HAS_LEASE) ? reader_get_zigzag(reader) : 0;
    /* A key that begins again without saying so would attach an old version to its lease. */
    if (reader->failed || place->key.size == 0 || sub_revision > UINT32_MAX ||
        flags != record_flags(&template, places_equal(place, &before))) {
        return STATUS_CORRUPT;
    }
    return key_store_restore(keys, &template, place->space, place->key, value, out_record);
}

static enum status decode_keys(struct reader *reader, uint32_t format, struct key_store *keys,
                               struct lease_table *leases) {
    struct record *newest = NULL;
    struct place place = {0};
    for (;;) {
        uint8_t flags = reader_get_u8(reader);
        if (reader->failed) {
            return STATUS_CORRUPT;
        }
        if ((flags & RECORD_SAME_KEY) == 0) {
            enum status status = attach_newest(leases, newest);
            if (status != STATUS_OK || flags == RECORD_END) {
                return status;
            }
        }
        enum status status = decode_record(reader, format, flags, keys, &place, &newest);
        if (status != STATUS_OK) {
            return status;
        }
    }
}

/* --- The whole. --- */

/* What every member of a cluster of this version can read. */
static uint32_t format_of(uint32_t cluster_version) {
    return cluster_version < CLUSTER_VERSION_RULES ? FORMAT_MEMBERS : FORMAT_SPACES;
}

struct snapshot_encoder *snapshot_encoder_create(const struct snapshot_parts *parts) {
    struct snapshot_encoder *encoder = calloc(1, sizeof *encoder);
    if (encoder == NULL) {
        abort();
    }
    encoder->parts = *parts;
    encoder->format = format_of(parts->cluster_version);
    return encoder;
}

void snapshot_encoder_destroy(struct snapshot_encoder *encoder) {
    if (encoder != NULL) {
        key_view_walk_close(encoder->walk);
        free(encoder->facts);
        free(encoder);
    }
}

static void encode_head(struct snapshot_encoder *encoder, struct buffer *buffer) {
    const struct snapshot_parts *parts = &encoder->parts;
    buffer_append(buffer, SNAPSHOT_MAGIC, sizeof SNAPSHOT_MAGIC);
    buffer_put_u32(buffer, encoder->format);
    if (encoder->format >= FORMAT_SPACES) {
        buffer_put_varint(buffer, parts->cluster_version);
    }
    buffer_put_varint(buffer, (uint64_t)key_view_revision(parts->keys));
    buffer_put_varint(buffer, (uint64_t)key_view_compacted_revision(parts->keys));
    begin_leases(encoder, buffer);
}

/* What lies between leases and keys. */
static void encode_rest(struct snapshot_encoder *encoder, struct buffer *buffer) {
    const struct snapshot_parts *parts = &encoder->parts;
    encode_ended(buffer, parts->leases);
    buffer_put_varint(buffer, parts->n_alarms);
    for (size_t i = 0; i < parts->n_alarms; i++) {
        buffer_put_varint(buffer, parts->alarms[i].member_id);
        buffer_put_u8(buffer, (uint8_t)parts->alarms[i].alarm);
    }
    buffer_append(buffer, parts->members.data, parts->members.size);
    if (encoder->format >= FORMAT_SPACES) {
        buffer_append(buffer, parts->auth.data, parts->auth.size);
    }
    encoder->walk = key_view_walk_open(parts->keys, KEY_SPACE_NONE);
}

/* One lease, one record, or what stands between them. `start`: where this piece began. */
static void encode_step(struct snapshot_encoder *encoder, struct buffer *buffer, size_t start) {
    const struct record *record = NULL;
    switch (encoder->stage) {
    case STAGE_HEAD:
        encode_head(encoder, buffer);
        encoder->stage = STAGE_LEASES;
        return;
    case STAGE_LEASES:
        if (encoder->n_facts_written < encoder->n_facts) {
            encode_lease(encoder, buffer);
        } else {
            encoder->stage = STAGE_REST;
        }
        return;
    case STAGE_REST:
        encode_rest(encoder, buffer);
        encoder->stage = STAGE_KEYS;
        return;
    case STAGE_KEYS:
        record = key_view_walk_next(encoder->walk);
        if (record != NULL) {
            if (!key_space_equal(record_space(record), encoder->parts.left_out)) {
                encode_record(encoder, buffer, record);
            }
            return;
        }
        buffer_put_u8(buffer, RECORD_END);
        buffer_put_u32(buffer, crc32c(encoder->crc, buffer->data + start, buffer->size - start));
        encoder->stage = STAGE_DONE;
        return;
    case STAGE_DONE:
        return;
    }
}

bool snapshot_encoder_next(struct snapshot_encoder *encoder, struct buffer *buffer) {
    size_t start = buffer->size;
    while (encoder->stage != STAGE_DONE && buffer->size - start < SNAPSHOT_SINK_SIZE) {
        encode_step(encoder, buffer, start);
    }
    encoder->crc = crc32c(encoder->crc, buffer->data + start, buffer->size - start);
    return encoder->stage != STAGE_DONE;
}

void snapshot_encode(const struct snapshot_sink *sink, const struct snapshot_parts *parts) {
    struct snapshot_encoder *encoder = snapshot_encoder_create(parts);
    struct buffer buffer;
    buffer_init(&buffer);
    bool has_more = true;
    while (has_more) {
        buffer.size = 0;
        has_more = snapshot_encoder_next(encoder, &buffer);
        sink->write(sink->data, bytes_of(buffer.data, buffer.size));
    }
    buffer_clear(&buffer);
    snapshot_encoder_destroy(encoder);
}

static void decode_alarms(struct reader *reader, struct alarm_entry *alarms, size_t *out_n) {
    uint64_t n = reader_get_varint(reader);
    if (n > STATE_MACHINE_ALARMS_MAX) {
        reader->failed = true;
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        alarms[i].member_id = reader_get_varint(reader);
        alarms[i].alarm = (enum alarm_type)reader_get_u8(reader);
        bool in_order = i == 0 || alarms[i].member_id > alarms[i - 1].member_id ||
                        (alarms[i].member_id == alarms[i - 1].member_id &&
                         alarms[i].alarm > alarms[i - 1].alarm);
        if (!in_order || alarms[i].alarm > ALARM_CORRUPT) {
            reader->failed = true;
        }
    }
    *out_n = (size_t)n;
}

enum status snapshot_check(struct bytes bytes) {
    if (bytes.size < sizeof SNAPSHOT_MAGIC + 4 + SNAPSHOT_CHECKSUM_SIZE ||
        memcmp(bytes.data, SNAPSHOT_MAGIC, sizeof SNAPSHOT_MAGIC) != 0) {
        return STATUS_CORRUPT;
    }
    struct reader reader;
    size_t size = bytes.size - SNAPSHOT_CHECKSUM_SIZE;
    reader_init(&reader, bytes_of(bytes.data + size, SNAPSHOT_CHECKSUM_SIZE));
    if (reader_get_u32(&reader) != crc32c(0, bytes.data, size)) {
        return STATUS_CORRUPT;
    }
    reader_init(&reader, bytes);
    reader.position = sizeof SNAPSHOT_MAGIC;
    uint32_t format = reader_get_u32(&reader);
    return format >= FORMAT_FIRST && format <= FORMAT_NEWEST ? STATUS_OK : STATUS_UNSUPPORTED;
}

static enum status decode_cluster_version(struct reader *reader, uint32_t format,
                                          uint32_t *out_version) {
    if (format < FORMAT_SPACES) {
        *out_version = CLUSTER_VERSION_FIRST;
        return STATUS_OK;
    }
    uint64_t version = reader_get_varint(reader);
    if (reader->failed || version < CLUSTER_VERSION_RULES || version > UINT32_MAX) {
        return STATUS_CORRUPT;
    }
    *out_version = (uint32_t)version;
    return version <= CLUSTER_VERSION_KNOWN ? STATUS_OK : STATUS_UNSUPPORTED;
}

enum status snapshot_decode(struct bytes bytes, struct snapshot_target *target) {
    enum status status = snapshot_check(bytes);
    if (status != STATUS_OK) {
        return status;
    }
    struct reader reader;
    bytes.size -= SNAPSHOT_CHECKSUM_SIZE;
    reader_init(&reader, bytes);
    reader.position = sizeof SNAPSHOT_MAGIC;
    uint32_t format = reader_get_u32(&reader);
    status = decode_cluster_version(&reader, format, &target->cluster_version);
    if (status != STATUS_OK) {
        return status;
    }
    int64_t revision = (int64_t)reader_get_varint(&reader);
    int64_t compacted_revision = (int64_t)reader_get_varint(&reader);
    status = decode_leases(&reader, format, target->leases);
    if (status == STATUS_OK) {
        decode_ended(&reader, target->leases);
        decode_alarms(&reader, target->alarms, &target->n_alarms);
        if (format >= FORMAT_MEMBERS) {
            status = member_table_decode(target->members, &reader);
        }
        if (status == STATUS_OK && format >= FORMAT_SPACES) {
            status = auth_decode(target->auth, &reader);
        }
    }
    if (status == STATUS_OK) {
        status = decode_keys(&reader, format, target->keys, target->leases);
    }
    if (status == STATUS_OK && (reader.failed || reader_left(&reader) != 0)) {
        status = STATUS_CORRUPT;
    }
    return status == STATUS_OK ? key_store_restore_end(target->keys, revision, compacted_revision)
                               : status;
}
