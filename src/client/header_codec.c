#include "client/header_codec.h"

#include "client/http2_wire.h"
#include "net/grpc.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The static table (RFC 7541, appendix A), as far as it is needed. */
enum {
    STATIC_AUTHORITY = 1,
    STATIC_METHOD_POST = 3,
    STATIC_PATH = 4,
    STATIC_AUTHORIZATION = 23,
    STATIC_SCHEME_HTTP = 6,
    STATIC_SCHEME_HTTPS = 7,
    STATIC_CONTENT_TYPE = 31,
    STATIC_TABLE_SIZE = 61,
};
/* What an entry counts beside its texts (4.1). */
#define ENTRY_OVERHEAD 32
/* Few enough for every place to fit one byte. */
#define ENTRIES_MAX 48
/* grpc-timeout has at most eight digits. */
#define TIMEOUT_VALUE_MAX 99999999u
#define REQUESTS_KEPT 16
#define ANSWERS_KEPT 8
#define KEPT_SIZE_MAX 32

struct kept_block {
    uint64_t era; /* of the table it refers to; 0: nothing is kept */
    size_t size;
    uint8_t bytes[KEPT_SIZE_MAX];
};

struct kept_request {
    const char *path;
    uint32_t timeout_ms;
    struct kept_block block;
};

struct kept_answer {
    struct kept_block block;
    struct header_codec_answer answer; /* without a text */
};

/* A header to be sent. Names are compared as pointers, values by their key. */
struct field {
    const char *name;
    const char *value;
    uintptr_t key;
    size_t static_name; /* of the name in the static table; 0: none */
};

struct table_entry {
    const char *name;
    uintptr_t key;
};

struct header_codec {
    nghttp2_hd_inflater *inflater;
    char *authority;
    char *token; /* NULL: none */
    uintptr_t token_number;
    unsigned scheme;                         /* its place in the static table */
    struct table_entry entries[ENTRIES_MAX]; /* what the peer's table holds, oldest first */
    size_t n_entries;
    size_t table_size;
    size_t table_size_max;
    bool must_empty_table;
    uint64_t requests_era; /* counts the changes of that table */
    uint64_t inflater_era; /* counts the blocks that may have changed ours */
    struct kept_request requests[REQUESTS_KEPT];
    size_t next_request;
    struct kept_answer answers[ANSWERS_KEPT];
    size_t next_answer;
    struct buffer scratch;
};

struct header_codec *header_codec_create(const char *authority, bool is_tls) {
    struct header_codec *codec = calloc(1, sizeof *codec);
    if (codec == NULL) {
        return NULL;
    }
    buffer_init(&codec->scratch);
    codec->requests_era = 1;
    codec->table_size_max = HTTP2_HEADER_TABLE_SIZE;
    codec->inflater_era = 1;
    codec->authority = strdup(authority);
    codec->scheme = is_tls ? STATIC_SCHEME_HTTPS : STATIC_SCHEME_HTTP;
    if (codec->authority == NULL || nghttp2_hd_inflate_new(&codec->inflater) != 0) {
        header_codec_destroy(codec);
        return NULL;
    }
    return codec;
}

void header_codec_destroy(struct header_codec *codec) {
    if (codec == NULL) {
        return;
    }
    if (codec->inflater != NULL) {
        nghttp2_hd_inflate_del(codec->inflater);
    }
    buffer_clear(&codec->scratch);
    free(codec->authority);
    free(codec->token);
    free(codec);
}

bool header_codec_set_token(struct header_codec *codec, const char *token) {
    char *copy = strdup(token);
    if (copy == NULL) {
        return false;
    }
    free(codec->token);
    codec->token = copy;
    codec->token_number++; /* the table may have the one before */
    codec->requests_era++; /* what is remembered does not say it */
    return true;
}

/* ---- remembering --------------------------------------------------------------------------------
 */

/* Only indexed fields, each in one byte (RFC 7541, 6.1): all ones in the other seven bits would
 * begin a longer number. */
static bool only_refers(struct bytes block) {
    for (size_t i = 0; i < block.size; i++) {
        if (block.data[i] <= 0x80 || block.data[i] == 0xff) {
            return false;
        }
    }
    return true;
}

static bool is_kept(const struct kept_block *kept, uint64_t era, struct bytes block) {
    return kept->era == era && kept->size == block.size &&
           memcmp(kept->bytes, block.data, block.size) == 0;
}

static void keep(struct kept_block *kept, uint64_t era, struct bytes block) {
    kept->era = era;
    kept->size = block.size;
    memcpy(kept->bytes, block.data, block.size);
}

/* ---- requests -----------------------------------------------------------------------------------
 */

/* A number of HPACK (RFC 7541, 5.1): what does not fit the prefix follows in groups of seven bits.
 */
static void put_number(struct buffer *out, uint8_t pattern, unsigned prefix_bits, size_t number) {
    size_t full = ((size_t)1 << prefix_bits) - 1;
    if (number < full) {
        buffer_put_u8(out, (uint8_t)(pattern | number));
        return;
    }
    buffer_put_u8(out, (uint8_t)(pattern | full));
    buffer_put_varint(out, number - full);
}

static void put_text(struct buffer *out, const char *text) {
    size_t size = strlen(text);
    put_number(out, 0, 7, size); /* as it is: it crosses the wire once */
    buffer_append(out, text, size);
}

/* The entry's place in the table, counted from the newest; 0: it is not there. */
static size_t find_entry(const struct header_codec *codec, const struct field *field) {
    for (size_t i = 0; i < codec->n_entries; i++) {
        const struct table_entry *entry = &codec->entries[i];
        if (entry->name == field->name && entry->key == field->key) {
            return STATIC_TABLE_SIZE + codec->n_entries - i;
        }
    }
    return 0;
}

static void put_field(struct header_codec *codec, const struct field *field) {
    struct buffer *out = &codec->scratch;
    size_t place = find_entry(codec, field);
    if (place != 0) {
        put_number(out, 0x80, 7, place);
        return;
    }
    size_t size = strlen(field->name) + strlen(field->value) + ENTRY_OVERHEAD;
    bool is_added =
        codec->n_entries < ENTRIES_MAX && codec->table_size + size <= codec->table_size_max;
    if (is_added) {
        put_number(out, 0x40, 6, field->static_name);
    } else {
        put_number(out, 0, 4, field->static_name);
    }
    if (field->static_name == 0) {
        put_text(out, field->name);
    }
    put_text(out, field->value);
    if (is_added) {
        codec->entries[codec->n_entries++] =
            (struct table_entry){.name = field->name, .key = field->key};
        codec->table_size += size;
        codec->requests_era++;
    }
}

static void write_timeout(uint32_t timeout_ms, char room[16]) {
    const char *unit = "m";
    if (timeout_ms > TIMEOUT_VALUE_MAX) {
        timeout_ms /= 1000;
        unit = "S";
    }
    snprintf(room, 16, "%u%s", timeout_ms, unit);
}

static struct bytes make_block(struct header_codec *codec, const char *path, uint32_t timeout_ms) {
    static const char path_name[] = ":path";
    static const char authority_name[] = ":authority";
    static const char type_name[] = "content-type";
    static const char te_name[] = "te";
    static const char timeout_name[] = "grpc-timeout";
    static const char token_name[] = "authorization";
    char timeout[16];
    codec->scratch.size = 0;
    if (codec->must_empty_table) {
        codec->must_empty_table = false;
        put_number(&codec->scratch, 0x20, 5, 0);
    }
    put_number(&codec->scratch, 0x80, 7, STATIC_METHOD_POST);
    put_number(&codec->scratch, 0x80, 7, codec->scheme);
    put_field(codec, &(struct field){path_name, path, (uintptr_t)path, STATIC_PATH});
    put_field(codec, &(struct field){authority_name, codec->authority, 0, STATIC_AUTHORITY});
    put_field(codec, &(struct field){type_name, "application/grpc", 0, STATIC_CONTENT_TYPE});
    put_field(codec, &(struct field){te_name, "trailers", 0, 0});
    if (timeout_ms > 0) {
        write_timeout(timeout_ms, timeout);
        put_field(codec, &(struct field){timeout_name, timeout, timeout_ms, 0});
    }
    if (codec->token != NULL) {
        put_field(codec, &(struct field){token_name, codec->token, codec->token_number,
                                         STATIC_AUTHORIZATION});
    }
    return bytes_of(codec->scratch.data, codec->scratch.size);
}

struct bytes header_codec_encode(struct header_codec *codec, const char *path,
                                 uint32_t timeout_ms) {
    for (size_t i = 0; i < REQUESTS_KEPT; i++) {
        const struct kept_request *kept = &codec->requests[i];
        if (kept->path == path && kept->timeout_ms == timeout_ms &&
            kept->block.era == codec->requests_era) {
            return bytes_of(kept->block.bytes, kept->block.size);
        }
    }
    uint64_t era = codec->requests_era;
    bool is_first = codec->must_empty_table;
    struct bytes block = make_block(codec, path, timeout_ms);
    if (codec->requests_era == era && !is_first && block.size <= KEPT_SIZE_MAX) {
        struct kept_request *kept = &codec->requests[codec->next_request++ % REQUESTS_KEPT];
        kept->path = path;
        kept->timeout_ms = timeout_ms;
        keep(&kept->block, era, block);
    }
    return block;
}

void header_codec_limit_table(struct header_codec *codec, uint32_t size) {
    /* A peer that wants less than the default gets no table at all: that is simple, and rare. */
    if (size < HTTP2_HEADER_TABLE_SIZE) {
        codec->must_empty_table = true;
        codec->table_size_max = 0;
        codec->n_entries = 0;
        codec->table_size = 0;
        codec->requests_era++;
    }
}

/* ---- answers ------------------------------------------------------------------------------------
 */

static int decimal(const uint8_t *data, size_t size) {
    int number = 0;
    if (size == 0 || size > 3) {
        return -1;
    }
    for (size_t i = 0; i < size; i++) {
        if (data[i] < '0' || data[i] > '9') {
            return -1;
        }
        number = number * 10 + (data[i] - '0');
    }
    return number;
}

static int hex_digit(uint8_t c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* grpc-message is percent-encoded; what is not well encoded is kept as it stands. */
static void decode_text(const uint8_t *data, size_t size, char *out_text) {
    size_t used = 0;
    for (size_t i = 0; i < size && used + 1 < HEADER_CODEC_TEXT_SIZE_MAX; i++) {
        int high = data[i] == '%' && i + 2 < size ? hex_digit(data[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(data[i + 2]) : -1;
        if (low >= 0) {
            out_text[used++] = (char)(high << 4 | low);
            i += 2;
        } else {
            out_text[used++] = (char)data[i];
        }
    }
    out_text[used] = 0;
}

static bool has_name(const nghttp2_nv *header, const char *name, size_t name_size) {
    return header->namelen == name_size && memcmp(header->name, name, name_size) == 0;
}
#define HAS_NAME(header, text) has_name(header, text, sizeof(text) - 1)

static void take_header(const nghttp2_nv *header, struct header_codec_answer *answer) {
    if (HAS_NAME(header, ":status")) {
        answer->http_status = decimal(header->value, header->valuelen);
    } else if (HAS_NAME(header, "grpc-status")) {
        int status = decimal(header->value, header->valuelen);
        answer->grpc_status = status < 0 || status > GRPC_UNAUTHENTICATED ? GRPC_UNKNOWN : status;
    } else if (HAS_NAME(header, "grpc-message")) {
        decode_text(header->value, header->valuelen, answer->text);
    } else if (HAS_NAME(header, "content-type")) {
        answer->is_grpc =
            header->valuelen >= 16 && memcmp(header->value, "application/grpc", 16) == 0;
    }
}

static enum status inflate(struct header_codec *codec, struct bytes block,
                           struct header_codec_answer *answer) {
    const uint8_t *at = block.data;
    size_t left = block.size;
    for (;;) {
        nghttp2_nv header;
        int flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(codec->inflater, &header, &flags, at, left, 1);
        if (used < 0) {
            return STATUS_MALFORMED;
        }
        at += used;
        left -= (size_t)used;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
            take_header(&header, answer);
        }
        if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) {
            nghttp2_hd_inflate_end_headers(codec->inflater);
            return STATUS_OK;
        }
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0 && left == 0) {
            return STATUS_MALFORMED; /* it ends inside a field */
        }
    }
}

enum status header_codec_decode(struct header_codec *codec, struct bytes block,
                                struct header_codec_answer *out_answer) {
    for (size_t i = 0; i < ANSWERS_KEPT; i++) {
        const struct kept_answer *kept = &codec->answers[i];
        if (is_kept(&kept->block, codec->inflater_era, block)) {
            out_answer->http_status = kept->answer.http_status;
            out_answer->grpc_status = kept->answer.grpc_status;
            out_answer->is_grpc = kept->answer.is_grpc;
            out_answer->text[0] = 0;
            return STATUS_OK;
        }
    }
    struct header_codec_answer answer = {.grpc_status = -1};
    enum status status = inflate(codec, block, &answer);
    if (status != STATUS_OK) {
        return status;
    }
    if (!only_refers(block)) {
        codec->inflater_era++;
    } else if (block.size > 0 && block.size <= KEPT_SIZE_MAX && answer.text[0] == 0) {
        struct kept_answer *kept = &codec->answers[codec->next_answer++ % ANSWERS_KEPT];
        kept->answer = answer;
        keep(&kept->block, codec->inflater_era, block);
    }
    *out_answer = answer;
    return STATUS_OK;
}
