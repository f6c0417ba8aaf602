#include "doors/etcd/etcd_wal.h"

#include "base/crc32.h"
#include "base/little_endian.h"
#include "base/pb_reader.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    FRAME_HEADER_SIZE = 8,
    FRAME_PADDING_SHIFT = 56, /* of the byte that says how much padding follows */
    FRAME_PADDING_MASK = 7,
    RECORD_SIZE_MAX = 1024 * 1024, /* a member with all its URLs needs far less */
    RESTORE_TERM = 1
};

enum record_type {
    RECORD_METADATA = 1,
    RECORD_ENTRY = 2,
    RECORD_STATE = 3,
    RECORD_CHECKSUM = 4,
    RECORD_SNAPSHOT = 5
};

enum { ENTRY_CHANGES_MEMBERS = 1, CHANGE_ADDS_MEMBER = 0 };

struct record {
    int64_t type;
    uint32_t checksum;
    struct bytes data;
};

struct log {
    struct bytes rest;
    uint32_t checksum; /* of all data so far */
    struct arena *arena;
    char *error;
    size_t error_size;
};

__attribute__((format(printf, 3, 4))) static enum status fail(struct log *log, enum status status,
                                                              const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(log->error, log->error_size, format, arguments);
    va_end(arguments);
    return status;
}

static enum status fail_damaged(struct log *log, const char *what) {
    return fail(log, STATUS_CORRUPT, "its log is damaged: %s", what);
}

static enum status fail_other(struct log *log, const char *what) {
    return fail(log, STATUS_UNSUPPORTED, "its log is not one that a restore has just written: %s",
                what);
}

/* --- Frames and records. --- */

static bool record_parse(struct bytes bytes, struct record *out_record) {
    struct pb_reader reader;
    struct record record = {0};
    pb_reader_init(&reader, bytes);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            record.type = pb_reader_int64(&reader);
            break;
        case 2:
            record.checksum = (uint32_t)pb_reader_uint64(&reader);
            break;
        case 3:
            record.data = pb_reader_bytes(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    *out_record = record;
    return !reader.failed;
}

/* STATUS_KEY_NOT_FOUND: the end, which the file or a length of zero makes. */
static enum status next_record(struct log *log, struct record *out_record) {
    if (log->rest.size < FRAME_HEADER_SIZE) {
        return log->rest.size == 0 ? STATUS_KEY_NOT_FOUND
                                   : fail_damaged(log, "it ends within a length");
    }
    uint64_t header = little_endian_get_u64(log->rest.data);
    if (header == 0) {
        return STATUS_KEY_NOT_FOUND;
    }
    uint64_t size = header & ((UINT64_C(1) << FRAME_PADDING_SHIFT) - 1);
    size_t padding = header >> 63 != 0 ? header >> FRAME_PADDING_SHIFT & FRAME_PADDING_MASK : 0;
    size_t left = log->rest.size - FRAME_HEADER_SIZE;
    if (size > RECORD_SIZE_MAX || size + padding > left) {
        return fail_damaged(log, "a record is longer than the file");
    }
    struct bytes bytes = bytes_of(log->rest.data + FRAME_HEADER_SIZE, (size_t)size);
    if (!record_parse(bytes, out_record)) {
        return fail_damaged(log, "a record is malformed");
    }
    if (out_record->type == RECORD_CHECKSUM) {
        log->checksum = out_record->checksum;
    } else {
        log->checksum = crc32c(log->checksum, out_record->data.data, out_record->data.size);
        if (log->checksum != out_record->checksum) {
            return fail_damaged(log, "a checksum is wrong");
        }
    }
    size_t used = FRAME_HEADER_SIZE + (size_t)size + padding;
    log->rest = bytes_of(log->rest.data + used, log->rest.size - used);
    return STATUS_OK;
}

/* The next one, which must be of this type. */
static enum status expect_record(struct log *log, enum record_type type,
                                 struct record *out_record) {
    enum status status = next_record(log, out_record);
    if (status == STATUS_KEY_NOT_FOUND) {
        return fail_other(log, "it ends too early");
    }
    if (status == STATUS_OK && out_record->type != (int64_t)type) {
        return fail_other(log, "its records come in another order");
    }
    return status;
}

/* Up to four numbers; field i goes to out_numbers[i]. Other fields are left out. */
enum { NUMBER_FIELDS_MAX = 4 };

static bool read_numbers(struct bytes message, uint64_t out_numbers[NUMBER_FIELDS_MAX],
                         struct bytes *out_field_4) {
    struct pb_reader reader;
    memset(out_numbers, 0, NUMBER_FIELDS_MAX * sizeof out_numbers[0]);
    *out_field_4 = bytes_of(NULL, 0);
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field < NUMBER_FIELDS_MAX && reader.wire_type == PB_VARINT) {
            out_numbers[reader.field] = pb_reader_uint64(&reader);
        } else if (reader.field == 4 && reader.wire_type == PB_BYTES) {
            *out_field_4 = pb_reader_bytes(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

/* --- Members. --- */

static struct bytes copy_text(struct log *log, const json_t *text) {
    size_t size = json_string_length(text);
    return bytes_of(arena_copy(log->arena, json_string_value(text), size), size);
}

/* {"id": …, "peerURLs": ["…"], "name": "…"}; the id is that of the entry. */
static bool read_facts(struct log *log, const json_t *root, struct member_facts *facts) {
    const json_t *name = json_object_get(root, "name");
    const json_t *urls = json_object_get(root, "peerURLs");
    if (!json_is_string(name) || !json_is_array(urls) || json_array_size(urls) == 0 ||
        json_array_size(urls) > MEMBER_URLS_MAX) {
        return false;
    }
    facts->name = copy_text(log, name);
    for (size_t i = 0; i < json_array_size(urls); i++) {
        const json_t *url = json_array_get(urls, i);
        if (!json_is_string(url)) {
            return false;
        }
        facts->peer_urls[facts->n_peer_urls++] = copy_text(log, url);
    }
    return member_facts_are_good(facts);
}

static enum status add_member(struct log *log, uint64_t id, struct bytes context,
                              struct etcd_wal *wal) {
    struct member_facts facts = {.id = id};
    if (wal->n_members == MEMBERS_MAX) {
        return fail_other(log, "it has more members than leased can have");
    }
    for (size_t i = 0; i < wal->n_members; i++) {
        if (wal->members[i].id == id) {
            return fail_damaged(log, "a member is there twice");
        }
    }
    json_error_t ignored;
    /* The id, which is not asked for here, may be larger than jansson's integers. */
    json_t *root = json_loadb((const char *)context.data, context.size,
                              JSON_DECODE_INT_AS_REAL | JSON_REJECT_DUPLICATES, &ignored);
    bool is_good = root != NULL && read_facts(log, root, &facts);
    json_decref(root);
    if (!is_good) {
        return fail_damaged(log, "what it says of a member cannot be read");
    }
    wal->members[wal->n_members++] = facts;
    return STATUS_OK;
}

/* An entry: type 1, term 2, index 3, data 4. Its data: id 1, type 2, member 3, context 4. */
static enum status take_entry(struct log *log, struct bytes entry, struct etcd_wal *wal) {
    uint64_t numbers[NUMBER_FIELDS_MAX];
    struct bytes change;
    struct bytes context;
    if (!read_numbers(entry, numbers, &change)) {
        return fail_damaged(log, "an entry is malformed");
    }
    if (numbers[1] != ENTRY_CHANGES_MEMBERS || numbers[2] != RESTORE_TERM ||
        numbers[3] != wal->n_members + 1) {
        return fail_other(log, "etcd has written to it");
    }
    if (!read_numbers(change, numbers, &context)) {
        return fail_damaged(log, "an entry is malformed");
    }
    if (numbers[2] != CHANGE_ADDS_MEMBER) {
        return fail_other(log, "etcd has changed the members");
    }
    return add_member(log, numbers[3], context, wal);
}

/* --- The whole. --- */

static enum status read_metadata(struct log *log, struct etcd_wal *wal) {
    struct record record;
    uint64_t numbers[NUMBER_FIELDS_MAX];
    struct bytes ignored;
    enum status status = expect_record(log, RECORD_CHECKSUM, &record);
    if (status == STATUS_OK) {
        status = expect_record(log, RECORD_METADATA, &record);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (!read_numbers(record.data, numbers, &ignored) || numbers[1] == 0 || numbers[2] == 0) {
        return fail_damaged(log, "it has no ids of member and cluster");
    }
    wal->member_id = numbers[1];
    wal->cluster_id = numbers[2];
    return STATUS_OK;
}

static enum status read_snapshot(struct log *log, uint64_t index, uint64_t term) {
    struct record record;
    uint64_t numbers[NUMBER_FIELDS_MAX];
    struct bytes ignored;
    enum status status = expect_record(log, RECORD_SNAPSHOT, &record);
    if (status != STATUS_OK) {
        return status;
    }
    if (!read_numbers(record.data, numbers, &ignored)) {
        return fail_damaged(log, "a snapshot's record is malformed");
    }
    return numbers[1] == index && numbers[2] == term
               ? STATUS_OK
               : fail_other(log, "etcd has taken a snapshot since");
}

/* The entries, then the state: term 1, vote 2, commit 3. */
static enum status read_entries(struct log *log, struct etcd_wal *wal) {
    struct record record;
    for (;;) {
        enum status status = next_record(log, &record);
        if (status == STATUS_KEY_NOT_FOUND) {
            return fail_other(log, "it ends too early");
        }
        if (status == STATUS_OK && record.type == RECORD_ENTRY) {
            status = take_entry(log, record.data, wal);
        } else if (status == STATUS_OK) {
            break;
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
    uint64_t numbers[NUMBER_FIELDS_MAX];
    struct bytes ignored;
    if (record.type != RECORD_STATE || !read_numbers(record.data, numbers, &ignored)) {
        return fail_other(log, "its records come in another order");
    }
    return numbers[1] == RESTORE_TERM && numbers[3] == wal->n_members && wal->n_members > 0
               ? STATUS_OK
               : fail_other(log, "etcd has gone on with it");
}

static bool has_self(const struct etcd_wal *wal) {
    for (size_t i = 0; i < wal->n_members; i++) {
        if (wal->members[i].id == wal->member_id) {
            return true;
        }
    }
    return false;
}

enum status etcd_wal_read(struct bytes file, struct arena *arena, struct etcd_wal *out_wal,
                          char *out_error, size_t error_size) {
    struct log log = {.rest = file, .arena = arena, .error = out_error, .error_size = error_size};
    struct etcd_wal wal = {0};
    struct record record;
    enum status status = read_metadata(&log, &wal);
    if (status == STATUS_OK) {
        status = read_snapshot(&log, 0, 0);
    }
    if (status == STATUS_OK) {
        status = read_entries(&log, &wal);
    }
    if (status == STATUS_OK) {
        status = read_snapshot(&log, wal.n_members, RESTORE_TERM);
    }
    if (status != STATUS_OK) {
        return status;
    }
    status = next_record(&log, &record);
    if (status == STATUS_OK) {
        return fail_other(&log, "etcd has run on it since");
    }
    if (status != STATUS_KEY_NOT_FOUND) {
        return status;
    }
    if (!has_self(&wal)) {
        return fail_damaged(&log, "this member is not among those that it names");
    }
    *out_wal = wal;
    return STATUS_OK;
}
