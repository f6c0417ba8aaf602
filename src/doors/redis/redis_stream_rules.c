/* Streams: one record for each entry, under its id, so that the order of keys is that of ids. No
 * consumer groups. */
#include "doors/redis/redis_stream_rules.h"

#include "doors/redis/redis_command_rules.h"
#include "doors/redis/redis_events_rules.h"
#include "doors/redis/redis_run_rules.h"

#include <string.h>

enum { ID_SIZE = 16, TRIMMED_AT_ONCE = 1024 /* where the client lets us choose */ };

static const struct redis_stream_id first_id = {0, 0};
static const struct redis_stream_id last_id = {UINT64_MAX, UINT64_MAX};

/* --- Ids. --- */

static int compare(struct redis_stream_id a, struct redis_stream_id b) {
    if (a.ms != b.ms) {
        return a.ms < b.ms ? -1 : 1;
    }
    return a.seq == b.seq ? 0 : a.seq < b.seq ? -1 : 1;
}

static struct redis_stream_id next_id(struct redis_stream_id id) {
    id.seq++;
    id.ms += id.seq == 0;
    return id;
}

static struct redis_stream_id previous_id(struct redis_stream_id id) {
    id.ms -= id.seq == 0;
    id.seq--;
    return id;
}

static size_t put_number(char *out, uint64_t value) {
    char digits[20];
    size_t n = 0;
    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    for (size_t i = 0; i < n; i++) {
        out[i] = digits[n - 1 - i];
    }
    return n;
}

size_t redis_stream_id_text(struct redis_stream_id id, char out_text[REDIS_STREAM_ID_SIZE]) {
    size_t size = put_number(out_text, id.ms);
    out_text[size++] = '-';
    return size + put_number(out_text + size, id.seq);
}

static bool get_number(struct bytes text, uint64_t *out_value) {
    uint64_t value = 0;
    if (text.size == 0 || text.size > 20) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        unsigned digit = (unsigned)text.data[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value)) {
            return false;
        }
    }
    *out_value = value;
    return true;
}

/* "5-3", or "5" with a sequence that was left out. */
static bool parse_id(struct bytes text, uint64_t missing_seq, struct redis_stream_id *out_id) {
    const uint8_t *dash = text.size == 0 ? NULL : memchr(text.data, '-', text.size);
    size_t size = dash == NULL ? text.size : (size_t)(dash - text.data);
    out_id->seq = missing_seq;
    return get_number(bytes_of(text.data, size), &out_id->ms) &&
           (dash == NULL || get_number(bytes_of(dash + 1, text.size - size - 1), &out_id->seq));
}

bool redis_stream_id_parse(struct bytes text, struct redis_stream_id *out_id) {
    bool is_id = parse_id(text, 0, out_id);
    *out_id = is_id ? *out_id : first_id;
    return is_id;
}

static bool get_id(struct redis_run *run, struct bytes text, uint64_t missing_seq,
                   struct redis_stream_id *out_id) {
    if (!parse_id(text, missing_seq, out_id)) {
        redis_error(run, "Invalid stream ID specified as stream command argument");
        return false;
    }
    return true;
}

static void reply_id(struct redis_run *run, struct redis_stream_id id) {
    char text[REDIS_STREAM_ID_SIZE];
    redis_reply_bulk(run->reply, bytes_of(text, redis_stream_id_text(id, text)));
}

/* --- Entries. --- */

static struct bytes entry_key(struct redis_run *run, const struct redis_object *stream,
                              struct redis_stream_id id) {
    uint8_t bytes[ID_SIZE];
    redis_put_be64(bytes, id.ms);
    redis_put_be64(bytes + 8, id.seq);
    return redis_key_element(run->arena, stream->header.id, bytes_of(bytes, sizeof bytes));
}

static struct redis_stream_id id_of(const struct record *record) {
    struct bytes element = redis_element_of(record);
    return (struct redis_stream_id){redis_get_be64(element.data), redis_get_be64(element.data + 8)};
}

/* The entries of [from, to]. */
static struct key_range range_of(struct redis_run *run, const struct redis_object *stream,
                                 struct redis_stream_id from, struct redis_stream_id to) {
    struct key_range range = redis_range_elements(run->arena, stream->header.id);
    range.key = entry_key(run, stream, from);
    if (compare(to, last_id) < 0) {
        range.range_end = entry_key(run, stream, next_id(to));
    }
    return range;
}

/* Fields and values, each with its size before it. */
static struct bytes encode_fields(struct redis_run *run, const struct bytes *fields, size_t n) {
    size_t size = 0;
    for (size_t i = 0; i < n; i++) {
        size += 8 + fields[i].size;
    }
    uint8_t *bytes = arena_alloc(run->arena, size);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        redis_put_be64(bytes + at, fields[i].size);
        if (fields[i].size > 0) {
            memcpy(bytes + at + 8, fields[i].data, fields[i].size);
        }
        at += 8 + fields[i].size;
    }
    return bytes_of(bytes, size);
}

/* One field or value; false at the end. */
static bool next_field(struct bytes value, size_t *at, struct bytes *out_field) {
    if (value.size - *at < 8) {
        return false;
    }
    uint64_t size = redis_get_be64(value.data + *at);
    if (size > value.size - *at - 8) {
        return false;
    }
    *out_field = bytes_of(value.data + *at + 8, (size_t)size);
    *at += 8 + (size_t)size;
    return true;
}

static void reply_entry(struct redis_run *run, const struct record *record) {
    struct bytes value = record_value(record);
    struct bytes field;
    size_t n = 0;
    size_t at = 0;
    while (next_field(value, &at, &field)) {
        n++;
    }
    redis_reply_array(run->reply, 2);
    reply_id(run, id_of(record));
    redis_reply_array(run->reply, n);
    at = 0;
    while (next_field(value, &at, &field)) {
        redis_reply_bulk(run->reply, field);
    }
}

static void reply_entries(struct redis_run *run, const struct redis_records *records) {
    redis_reply_array(run->reply, records->n);
    for (size_t i = 0; i < records->n; i++) {
        reply_entry(run, records->at[i]);
    }
}

/* --- Trimming. --- */

struct trim {
    enum { TRIM_NONE, TRIM_MAXLEN, TRIM_MINID } by;
    bool is_about; /* "~": as many as we like */
    int64_t length;
    struct redis_stream_id id;
    int64_t limit; /* of those that go; 0: none */
};

/* MAXLEN or MINID at argv[*at], which goes behind it. */
static bool get_trim(struct redis_run *run, const struct bytes *argv, size_t argc, size_t *at,
                     struct trim *trim) {
    bool is_length = redis_word_is(argv[*at], "maxlen");
    if (trim->by != TRIM_NONE) {
        redis_error(run, "syntax error, MAXLEN and MINID options at the same time are not "
                         "compatible");
        return false;
    }
    if (*at + 1 >= argc) {
        redis_error_syntax(run);
        return false;
    }
    trim->by = is_length ? TRIM_MAXLEN : TRIM_MINID;
    ++*at;
    if (*at + 1 < argc && argv[*at].size == 1 &&
        (argv[*at].data[0] == '~' || argv[*at].data[0] == '=')) {
        trim->is_about = argv[*at].data[0] == '~';
        ++*at;
    }
    if (is_length && !redis_get_integer(run, argv[*at], &trim->length)) {
        return false;
    }
    if (is_length && trim->length < 0) {
        redis_error(run, "The MAXLEN argument must be >= 0.");
        return false;
    }
    return is_length || get_id(run, argv[*at], 0, &trim->id);
}

static bool get_limit(struct redis_run *run, const struct bytes *argv, size_t argc, size_t *at,
                      struct trim *trim) {
    if (*at + 1 >= argc) {
        redis_error_syntax(run);
        return false;
    }
    if (!redis_get_integer(run, argv[++*at], &trim->limit)) {
        return false;
    }
    if (trim->limit < 0) {
        redis_error(run, "The LIMIT argument must be >= 0.");
        return false;
    }
    if (trim->by == TRIM_NONE || !trim->is_about) {
        redis_error(run, "syntax error, LIMIT cannot be used without the special ~ option");
        return false;
    }
    return true;
}

/* How many have gone. The header is to be saved. */
static int64_t trim_stream(struct redis_run *run, struct redis_object *stream,
                           const struct trim *trim) {
    struct redis_stream_id to = last_id;
    int64_t most = stream->header.count;
    if (trim->by == TRIM_MAXLEN) {
        most = most > trim->length ? most - trim->length : 0;
    } else if (compare(trim->id, first_id) == 0) {
        most = 0;
    } else {
        to = previous_id(trim->id);
    }
    if (trim->is_about) {
        int64_t limit =
            trim->limit > 0 && trim->limit < TRIMMED_AT_ONCE ? trim->limit : TRIMMED_AT_ONCE;
        most = most > limit ? limit : most;
    }
    struct key_range range = range_of(run, stream, first_id, to);
    struct redis_records records = redis_collect_keys(run, &range, (size_t)most);
    for (size_t i = 0; i < records.n && !run->is_exceeded; i++) {
        redis_element_delete(run, entry_key(run, stream, id_of(records.at[i])));
    }
    stream->header.count -= (int64_t)records.n;
    return (int64_t)records.n;
}

/* --- XADD --- */

struct xadd {
    bool only_there; /* NOMKSTREAM */
    struct trim trim;
    bool has_ms;
    bool has_seq;
    struct redis_stream_id id;
};

/* "*", "5-*", "5-3" or "5". */
static bool get_new_id(struct redis_run *run, struct bytes text, struct xadd *xadd) {
    if (text.size == 1 && text.data[0] == '*') {
        return true;
    }
    xadd->has_ms = true;
    if (text.size > 2 && text.data[text.size - 1] == '*' && text.data[text.size - 2] == '-') {
        return get_id(run, bytes_of(text.data, text.size - 2), 0, &xadd->id);
    }
    xadd->has_seq = true;
    if (!get_id(run, text, 0, &xadd->id)) {
        return false;
    }
    if (compare(xadd->id, first_id) == 0) {
        redis_error(run, "The ID specified in XADD must be greater than 0-0");
        return false;
    }
    return true;
}

static bool xadd_options(struct redis_run *run, const struct bytes *argv, size_t argc, size_t *at,
                         struct xadd *xadd) {
    for (*at = 2; *at < argc; ++*at) {
        bool is_right = true;
        if (redis_word_is(argv[*at], "nomkstream")) {
            xadd->only_there = true;
        } else if (redis_word_is(argv[*at], "maxlen") || redis_word_is(argv[*at], "minid")) {
            is_right = get_trim(run, argv, argc, at, &xadd->trim);
        } else if (redis_word_is(argv[*at], "limit")) {
            is_right = get_limit(run, argv, argc, at, &xadd->trim);
        } else {
            break;
        }
        if (!is_right) {
            return false;
        }
    }
    if (*at >= argc || argc - *at < 3 || (argc - *at) % 2 == 0) {
        redis_error(run, "wrong number of arguments for 'xadd' command");
        return false;
    }
    return get_new_id(run, argv[(*at)++], xadd);
}

/* The id of the next entry; false: there is none that is greater than the last. */
static bool choose_id(const struct redis_run *run, const struct redis_header *header,
                      struct xadd *xadd) {
    struct redis_stream_id last = header->last;
    if (!xadd->has_ms) {
        uint64_t now_ms = run->wall_ms < 0 ? 0 : (uint64_t)run->wall_ms;
        xadd->id = now_ms > last.ms ? (struct redis_stream_id){now_ms, 0} : next_id(last);
    } else if (!xadd->has_seq) {
        bool is_same = xadd->id.ms == last.ms;
        if (is_same && last.seq == UINT64_MAX) {
            return false;
        }
        xadd->id.seq = is_same ? last.seq + 1 : 0;
    }
    return compare(xadd->id, last) > 0;
}

void redis_stream_xadd(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct xadd xadd = {0};
    struct redis_object stream;
    size_t at;
    if (!xadd_options(run, argv, argc, &at, &xadd) ||
        !redis_object_load_as(run, argv[1], REDIS_STREAM, &stream)) {
        return;
    }
    if (!redis_object_exists(&stream) && xadd.only_there) {
        redis_reply_null(run->reply);
        return;
    }
    if (compare(stream.header.last, last_id) == 0) {
        redis_error(run, "The stream has exhausted the last possible ID, unable to add more items");
        return;
    }
    if (!choose_id(run, &stream.header, &xadd)) {
        redis_error(run, "The ID specified in XADD is equal or smaller than the target stream top "
                         "item");
        return;
    }
    if (!redis_object_exists(&stream) && !redis_object_create(run, &stream, REDIS_STREAM)) {
        return;
    }
    redis_element_put(run, &stream, entry_key(run, &stream, xadd.id),
                      encode_fields(run, argv + at, argc - at));
    stream.header.last = xadd.id;
    stream.header.count++;
    redis_event(run, REDIS_EVENT_STREAM, "xadd", stream.name);
    if (xadd.trim.by != TRIM_NONE && trim_stream(run, &stream, &xadd.trim) > 0) {
        redis_event(run, REDIS_EVENT_STREAM, "xtrim", stream.name);
    }
    redis_object_save(run, &stream);
    reply_id(run, xadd.id);
}

void redis_stream_xtrim(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct trim trim = {0};
    struct redis_object stream;
    size_t at = 2;
    if (!redis_word_is(argv[2], "maxlen") && !redis_word_is(argv[2], "minid")) {
        redis_error_syntax(run);
        return;
    }
    if (!get_trim(run, argv, argc, &at, &trim)) {
        return;
    }
    for (at++; at < argc; at++) {
        if (!redis_word_is(argv[at], "limit")) {
            redis_error_syntax(run);
            return;
        }
        if (!get_limit(run, argv, argc, &at, &trim)) {
            return;
        }
    }
    if (!redis_object_load_as(run, argv[1], REDIS_STREAM, &stream)) {
        return;
    }
    int64_t n = redis_object_exists(&stream) ? trim_stream(run, &stream, &trim) : 0;
    if (n > 0) {
        redis_event(run, REDIS_EVENT_STREAM, "xtrim", stream.name);
        redis_object_save(run, &stream);
    }
    redis_reply_integer(run->reply, n);
}

void redis_stream_xdel(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object stream;
    int64_t n = 0;
    if (!redis_object_load_as(run, argv[1], REDIS_STREAM, &stream)) {
        return;
    }
    struct redis_stream_id *ids = arena_calloc(run->arena, argc, sizeof ids[0]);
    for (size_t i = 2; redis_object_exists(&stream) && i < argc; i++) {
        if (!get_id(run, argv[i], 0, &ids[i])) {
            return;
        }
    }
    for (size_t i = 2; redis_object_exists(&stream) && i < argc; i++) {
        n += redis_element_delete(run, entry_key(run, &stream, ids[i]));
    }
    if (n > 0) {
        stream.header.count -= n;
        redis_event(run, REDIS_EVENT_STREAM, "xdel", stream.name);
        redis_object_save(run, &stream);
    }
    redis_reply_integer(run->reply, n);
}

void redis_stream_xlen(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object stream;
    (void)argc;
    if (redis_object_load_as(run, argv[1], REDIS_STREAM, &stream)) {
        redis_reply_integer(run->reply, stream.header.count);
    }
}

/* --- Ranges. --- */

/* One end of a range: "-", "+", an id, or "(" and an id. False: the error is the reply. */
static bool get_bound(struct redis_run *run, struct bytes text, bool is_first,
                      struct redis_stream_id *out_id) {
    bool is_exclusive = text.size > 1 && text.data[0] == '(';
    if (text.size == 1 && (text.data[0] == '-' || text.data[0] == '+')) {
        *out_id = text.data[0] == '-' ? first_id : last_id;
        return true;
    }
    if (is_exclusive) {
        text = bytes_of(text.data + 1, text.size - 1);
    }
    if (!get_id(run, text, is_first ? 0 : UINT64_MAX, out_id)) {
        return false;
    }
    if (is_exclusive && compare(*out_id, is_first ? last_id : first_id) == 0) {
        redis_error(run, is_first ? "invalid start ID for the interval"
                                  : "invalid end ID for the interval");
        return false;
    }
    if (is_exclusive) {
        *out_id = is_first ? next_id(*out_id) : previous_id(*out_id);
    }
    return true;
}

/* The last `limit` of [from, to]: as many milliseconds before the end as hold them. */
static struct redis_records last_of(struct redis_run *run, const struct redis_object *stream,
                                    struct redis_stream_id from, struct redis_stream_id to,
                                    size_t limit) {
    struct redis_stream_id end = compare(to, stream->header.last) < 0 ? to : stream->header.last;
    struct key_range range = range_of(run, stream, from, to);
    for (unsigned shift = 0; shift < 63 && limit < (size_t)stream->header.count; shift++) {
        uint64_t back_ms = UINT64_C(1) << shift;
        if (back_ms >= end.ms || end.ms - back_ms <= from.ms) {
            break;
        }
        struct redis_stream_id near = {end.ms - back_ms, 0};
        struct key_range part = range_of(run, stream, near, to);
        if (run->store->count(run->context, &part) >= limit) {
            range = part;
            break;
        }
    }
    struct redis_records records = redis_collect(run, &range, 0, SIZE_MAX);
    size_t n = records.n < limit ? records.n : limit;
    struct redis_records chosen = {.at = arena_calloc(run->arena, n, sizeof chosen.at[0]), .n = n};
    for (size_t i = 0; i < n; i++) {
        chosen.at[i] = records.at[records.n - 1 - i];
    }
    return chosen;
}

void redis_stream_xrange(struct redis_run *run, const struct bytes *argv, size_t argc) {
    bool is_reversed = run->command->id == REDIS_CMD_XREVRANGE;
    struct redis_stream_id from;
    struct redis_stream_id to;
    struct redis_object stream;
    int64_t count = -1;
    if (!get_bound(run, argv[is_reversed ? 3 : 2], true, &from) ||
        !get_bound(run, argv[is_reversed ? 2 : 3], false, &to)) {
        return;
    }
    for (size_t i = 4; i < argc; i += 2) {
        if (!redis_word_is(argv[i], "count") || i + 1 >= argc) {
            redis_error_syntax(run);
            return;
        }
        if (!redis_get_integer(run, argv[i + 1], &count)) {
            return;
        }
        count = count < 0 ? 0 : count;
    }
    if (!redis_object_load_as(run, argv[1], REDIS_STREAM, &stream)) {
        return;
    }
    if (count == 0) {
        redis_reply_null_array(run->reply);
        return;
    }
    struct redis_records records = {0};
    size_t limit = count < 0 ? SIZE_MAX : (size_t)count;
    if (redis_object_exists(&stream) && compare(from, to) <= 0) {
        struct key_range range = range_of(run, &stream, from, to);
        records = is_reversed ? last_of(run, &stream, from, to, limit)
                              : redis_collect(run, &range, 0, limit);
    }
    reply_entries(run, &records);
}

/* --- XREAD --- */

static bool xread_options(struct redis_run *run, const struct bytes *argv, size_t argc,
                          int64_t *out_count) {
    int64_t timeout;
    size_t i = 1;
    for (; i + 1 < argc && !redis_word_is(argv[i], "streams"); i += 2) {
        if (redis_word_is(argv[i], "count")) {
            if (!redis_get_integer(run, argv[i + 1], out_count)) {
                return false;
            }
        } else if (!redis_word_is(argv[i], "block")) {
            redis_error_syntax(run);
            return false;
        } else if (!redis_get_integer_or(run, argv[i + 1],
                                         "timeout is not an integer or out of range", &timeout)) {
            return false;
        }
    }
    if (i + 1 >= argc) {
        redis_error_syntax(run);
        return false;
    }
    if ((argc - i - 1) % 2 != 0) {
        redis_error(run, "Unbalanced XREAD list of streams: for each stream key an ID or '$' "
                         "must be specified.");
        return false;
    }
    return true;
}

/* What entries take of a reply, at least. A field has eight bytes of size in a record and six bytes
 * around it in a reply, or more; an entry has its id and two counts beside its fields. */
static size_t reply_bytes_min(const struct redis_records *records) {
    enum { AROUND_ENTRY = 16 };
    size_t bytes = 0;
    for (size_t i = 0; i < records->n; i++) {
        bytes += records->at[i]->value_size / 4 * 3 + AROUND_ENTRY;
    }
    return bytes;
}

/* What is behind an id, which may be "$": nothing. */
static bool read_behind(struct redis_run *run, struct bytes name, struct bytes id, size_t limit,
                        struct redis_records *out_records) {
    struct redis_object stream;
    struct redis_stream_id from;
    *out_records = (struct redis_records){0};
    if (!redis_object_load_as(run, name, REDIS_STREAM, &stream)) {
        return false;
    }
    if (id.size == 1 && id.data[0] == '$') {
        return true;
    }
    if (!get_id(run, id, 0, &from)) {
        return false;
    }
    if (redis_object_exists(&stream) && compare(from, stream.header.last) < 0) {
        struct key_range range = range_of(run, &stream, next_id(from), last_id);
        *out_records = redis_collect(run, &range, 0, limit);
    }
    return true;
}

void redis_stream_xread(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_key_places places;
    int64_t count = 0;
    size_t n = 0;
    size_t bytes = 0;
    if (!xread_options(run, argv, argc, &count) ||
        !redis_command_keys(run->command, argv, argc, &places)) {
        return;
    }
    struct redis_records *found = arena_calloc(run->arena, places.n, sizeof found[0]);
    for (size_t i = 0; i < places.n; i++) {
        const struct bytes *name = &argv[places.first + i];
        /* One stream may be named many times. Beyond what a reply may be, nothing more is
         * collected; that a later name or id is wrong is said all the same. */
        bool is_too_much = bytes > REDIS_REPLY_BYTES_MAX;
        size_t limit = is_too_much ? 0 : count > 0 ? (size_t)count : SIZE_MAX;
        if (!read_behind(run, name[0], name[places.n], limit, &found[i])) {
            return;
        }
        n += found[i].n > 0;
        bytes += reply_bytes_min(&found[i]);
    }
    if (bytes > REDIS_REPLY_BYTES_MAX) {
        run->is_exceeded = true;
        return;
    }
    if (n == 0) {
        redis_reply_null_array(run->reply);
        return;
    }
    redis_reply_entries(run->reply, n);
    for (size_t i = 0; i < places.n && !redis_run_is_full(run); i++) {
        if (found[i].n > 0) {
            redis_reply_bulk(run->reply, argv[places.first + i]);
            reply_entries(run, &found[i]);
        }
    }
}
