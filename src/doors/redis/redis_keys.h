/*
 * The keys of the Redis protocol and what their values say. Numbers are big-endian.
 *
 * In KEY_SPACE_REDIS, so that a right to a key's name is the right to it (core/auth_names.h):
 *
 *     DB KEY         a byte for the database, the key. The value is the key's header: a byte for
 * the type, of which the highest bit says that a deadline follows (eight bytes, wall time in
 * milliseconds: information, the lease decides), then for a string its bytes, and for the others:
 * id, count and, of a list, the position of its first element, of a stream the two numbers of its
 * last id, eight bytes each.
 *
 * In KEY_SPACE_REDIS_RECORDS, to which no permission is given and none needed: they are reached by
 * the header alone.
 *
 *     o ID FIELD     of a hash; the value is that of the field
 *     o ID MEMBER    of a set; no value
 *     o ID POSITION  of a list: eight bytes, sign bit flipped; positions have no gaps
 *     o ID MS SEQUENCE  of a stream: eight bytes each; the value is its fields and values
 *     o ID m MEMBER  of a sorted set: the value is the score, eight bytes in sortable form
 *     o ID s SCORE MEMBER
 *     p CHANNEL      a message, put and deleted in one revision for those that watch
 *     q CHANNEL      the same for sharded channels
 *     n DB CLASS EVENT NUL KEY   a keyspace event, put and deleted likewise
 *     x SHA1         a script
 *     c NAME         a setting that holds for all members
 *     f DB KEY       the highest token that LEASED.FENCE was shown
 *
 * A string has a lease while it has a deadline. All others have one always, without end when they
 * have no deadline: so expiry, deletion and EXPIRE are one change, however many elements there are.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_KEYS_H
#define LEASED_DOORS_REDIS_REDIS_KEYS_H

#include "base/arena.h"
#include "base/bytes.h"
#include "core/auth_names.h"
#include "core/permission.h"
#include "core/record.h"

#include <stdbool.h>
#include <stdint.h>

enum { REDIS_DATABASES = AUTH_REDIS_DATABASES, REDIS_KEY_SIZE_MAX = 16 * 1024 };

enum redis_type {
    REDIS_NONE = 0,
    REDIS_STRING = 's',
    REDIS_LIST = 'l',
    REDIS_HASH = 'h',
    REDIS_SET = 'e',
    REDIS_ZSET = 'z',
    REDIS_STREAM = 't'
};

/* Of an entry of a stream. */
struct redis_stream_id {
    uint64_t ms;
    uint64_t seq;
};

/* What a header says. */
struct redis_header {
    enum redis_type type;
    int64_t deadline_ms; /* 0: none */
    uint64_t id;
    int64_t count;
    int64_t head;                /* the position of a list's first element */
    struct redis_stream_id last; /* of a stream; it stays when the entry goes */
    struct bytes value;          /* of a string */
};

/* False when the bytes are no header; then nothing is written. The value points into them. */
bool redis_header_decode(struct bytes bytes, struct redis_header *out_header);
/* In arena memory. */
struct bytes redis_header_encode(struct arena *arena, const struct redis_header *header);
/* The word that TYPE answers. */
const char *redis_type_name(enum redis_type type);

/* --- Keys, in arena memory. --- */

struct bytes redis_key_main(struct arena *arena, unsigned db, struct bytes key);
struct bytes redis_key_element(struct arena *arena, uint64_t id, struct bytes member);
struct bytes redis_key_position(struct arena *arena, uint64_t id, int64_t position);
struct bytes redis_key_member(struct arena *arena, uint64_t id, struct bytes member);
struct bytes redis_key_score(struct arena *arena, uint64_t id, double score, struct bytes member);
struct bytes redis_key_record(struct arena *arena, char kind, struct bytes rest);
struct bytes redis_key_fence(struct arena *arena, unsigned db, struct bytes key);

/* --- Reading keys. --- */

/* The key as the client knows it, of a header's record. */
static inline struct bytes redis_key_of(const struct record *record) {
    struct bytes key = record_key(record);
    return bytes_of(key.data + 1, key.size - 1);
}
/* What follows the id: a field, a member, a position. */
struct bytes redis_element_of(const struct record *record);
/* Of a record made with redis_key_member(). */
struct bytes redis_member_of(const struct record *record);
/* Of a record made with redis_key_score(). */
struct bytes redis_scored_member_of(const struct record *record, double *out_score);

/* --- Scores, so that the order of bytes is that of numbers; never NaN. --- */

uint64_t redis_score_encode(double score);
double redis_score_decode(uint64_t bits);
void redis_put_be64(uint8_t *out, uint64_t value);
uint64_t redis_get_be64(const uint8_t *bytes);

/* --- Ranges, in arena memory. --- */

struct key_range redis_range_database(struct arena *arena, unsigned db);
struct key_range redis_range_elements(struct arena *arena, uint64_t id);
struct key_range redis_range_members(struct arena *arena, uint64_t id);
struct key_range redis_range_scores(struct arena *arena, uint64_t id);
/* All keys of KEY_SPACE_REDIS_RECORDS that begin with a letter. */
struct key_range redis_range_records(char kind);

#endif
