#include "server/jwt.h"

#include "server/jwt_internal.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADER_SIZE_MAX = 1024,
    CLAIMS_SIZE_MAX = 2048,
    /* Lists in lists cost stack. */
    CLAIMS_DEPTH_MAX = 8,
};

/* --- Base 64 with "-" and "_" and without padding (RFC 7515). --- */

static size_t encoded_size(size_t size) {
    return (size * 4 + 2) / 3;
}

/* Writes encoded_size() characters and what EVP needs behind them: up to 3 more. */
static void encode(struct bytes raw, char *out_text) {
    EVP_EncodeBlock((unsigned char *)out_text, raw.data, (int)raw.size);
    size_t size = encoded_size(raw.size);
    for (size_t i = 0; i < size; i++) {
        out_text[i] = (char)(out_text[i] == '+' ? '-' : out_text[i] == '/' ? '_' : out_text[i]);
    }
    out_text[size] = '\0';
}

static bool is_letter(uint8_t c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static bool decode(struct bytes text, uint8_t *out_raw, size_t size_max, size_t *out_size) {
    char block[JWT_TEXT_SIZE + 4];
    uint8_t raw[sizeof block];
    if (text.size >= JWT_TEXT_SIZE || text.size % 4 == 1) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (!is_letter(text.data[i])) {
            return false;
        }
        block[i] = (char)(text.data[i] == '-' ? '+' : text.data[i] == '_' ? '/' : text.data[i]);
    }
    size_t padded = (text.size + 3) / 4 * 4;
    memset(block + text.size, '=', padded - text.size);
    int size = EVP_DecodeBlock(raw, (const unsigned char *)block, (int)padded);
    if (size < 0 || (size_t)size - (padded - text.size) > size_max) {
        return false;
    }
    *out_size = (size_t)size - (padded - text.size);
    memcpy(out_raw, raw, *out_size);
    return true;
}

/* --- Writing. --- */

/* NULL: memory is out, or the name is not UTF-8. */
static char *claims_text(struct bytes user, uint64_t revision, int64_t expires_s) {
    json_t *claims = json_pack("{s:s%, s:I, s:I}", "username", (const char *)user.data, user.size,
                               "revision", (json_int_t)revision, "exp", (json_int_t)expires_s);
    char *text = claims != NULL ? json_dumps(claims, JSON_COMPACT) : NULL;
    json_decref(claims);
    return text;
}

static bool write_parts(const struct jwt *jwt, const char *claims, char out_text[JWT_TEXT_SIZE]) {
    char header[64];
    uint8_t signature[JWT_SIGNATURE_SIZE_MAX];
    size_t signature_size;
    snprintf(header, sizeof header, "{\"alg\":\"%s\",\"typ\":\"JWT\"}", jwt->method->name);
    size_t header_size = encoded_size(strlen(header));
    size_t claims_size = encoded_size(strlen(claims));
    if (strlen(claims) > CLAIMS_SIZE_MAX) {
        return false;
    }
    encode(bytes_from_text(header), out_text);
    out_text[header_size] = '.';
    encode(bytes_from_text(claims), out_text + header_size + 1);
    size_t size = header_size + 1 + claims_size;
    if (!jwt_sign(jwt, bytes_of(out_text, size), signature, &signature_size) ||
        size + 1 + encoded_size(signature_size) + 4 > JWT_TEXT_SIZE) {
        return false;
    }
    out_text[size] = '.';
    encode(bytes_of(signature, signature_size), out_text + size + 1);
    return true;
}

bool jwt_write(const struct jwt *jwt, struct bytes user, uint64_t revision, int64_t now_s,
               char out_text[JWT_TEXT_SIZE]) {
    if (jwt->private_key == NULL && jwt->secret == NULL) {
        return false;
    }
    char *claims = claims_text(user, revision, now_s + jwt->ttl_s);
    bool is_written = claims != NULL && write_parts(jwt, claims, out_text);
    free(claims);
    return is_written;
}

/* --- Reading. --- */

static json_t *decode_json(struct bytes text, size_t size_max) {
    uint8_t raw[CLAIMS_SIZE_MAX];
    size_t size;
    if (!decode(text, raw, size_max, &size)) {
        return NULL;
    }
    size_t depth = 0;
    for (size_t i = 0; i < size; i++) {
        depth += raw[i] == '{' || raw[i] == '[';
    }
    return depth > CLAIMS_DEPTH_MAX
               ? NULL
               : json_loadb((const char *)raw, size, JSON_REJECT_DUPLICATES, NULL);
}

/* What another method signed is not looked at: least of all "none". */
static bool has_our_method(const struct jwt *jwt, struct bytes text) {
    json_t *header = decode_json(text, HEADER_SIZE_MAX);
    const char *name = json_string_value(json_object_get(header, "alg"));
    bool is_ours = name != NULL && strcmp(name, jwt->method->name) == 0;
    json_decref(header);
    return is_ours;
}

/* A claim of a time, which may be missing; other programs write fractions. */
static bool read_time(const json_t *claims, const char *name, int64_t *out_time_s) {
    const json_t *value = json_object_get(claims, name);
    double number = value != NULL ? json_number_value(value) : (double)*out_time_s;
    if (value != NULL && (!json_is_number(value) || number < 0 || number > 1e15)) {
        return false;
    }
    if (value != NULL) {
        *out_time_s = (int64_t)number;
    }
    return true;
}

static bool read_claims(const json_t *claims, int64_t now_s, struct jwt_claims *out_claims) {
    const json_t *user = json_object_get(claims, "username");
    const json_t *revision = json_object_get(claims, "revision");
    int64_t expires_s = INT64_MAX;
    int64_t from_s = 0;
    int64_t issued_s = 0;
    if (!json_is_string(user) || json_string_length(user) > JWT_USER_SIZE_MAX ||
        !json_is_integer(revision) || json_integer_value(revision) < 0 ||
        !read_time(claims, "exp", &expires_s) || !read_time(claims, "nbf", &from_s) ||
        !read_time(claims, "iat", &issued_s) || now_s >= expires_s || now_s < from_s ||
        now_s < issued_s) {
        return false;
    }
    out_claims->user_size = json_string_length(user);
    memcpy(out_claims->user, json_string_value(user), out_claims->user_size);
    out_claims->revision = (uint64_t)json_integer_value(revision);
    out_claims->expires_s = expires_s;
    return true;
}

static const uint8_t *find_point(struct bytes text) {
    return text.size > 0 ? memchr(text.data, '.', text.size) : NULL;
}

bool jwt_read(const struct jwt *jwt, struct bytes text, int64_t now_s,
              struct jwt_claims *out_claims) {
    uint8_t signature[JWT_SIGNATURE_SIZE_MAX];
    size_t signature_size;
    const uint8_t *first = text.size < JWT_TEXT_SIZE ? find_point(text) : NULL;
    if (first == NULL) {
        return false;
    }
    struct bytes header = bytes_of(text.data, (size_t)(first - text.data));
    struct bytes rest = bytes_of(first + 1, text.size - header.size - 1);
    const uint8_t *second = find_point(rest);
    if (second == NULL) {
        return false;
    }
    struct bytes claims_part = bytes_of(rest.data, (size_t)(second - rest.data));
    struct bytes signature_part = bytes_of(second + 1, rest.size - claims_part.size - 1);
    struct bytes message = bytes_of(text.data, header.size + 1 + claims_part.size);
    if (!has_our_method(jwt, header) ||
        !decode(signature_part, signature, sizeof signature, &signature_size) ||
        !jwt_verify(jwt, message, bytes_of(signature, signature_size))) {
        return false;
    }
    json_t *claims = decode_json(claims_part, CLAIMS_SIZE_MAX);
    bool is_good = claims != NULL && read_claims(claims, now_s, out_claims);
    json_decref(claims);
    return is_good;
}
