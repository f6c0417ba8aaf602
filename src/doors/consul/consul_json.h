/*
 * JSON as Consul writes and reads it. Writing goes straight into a buffer, with the escapes of Go's
 * encoder. Reading is jansson's; names are found whatever their case and without regard to
 * underscores, since Consul takes "EnableTagOverride" and "enable_tag_override" alike.
 */
#ifndef LEASED_DOORS_CONSUL_CONSUL_JSON_H
#define LEASED_DOORS_CONSUL_CONSUL_JSON_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/bytes.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- Writing. --- */

struct consul_json {
    struct buffer *out;
    bool needs_comma;
};

void consul_json_init(struct consul_json *json, struct buffer *out);
void consul_json_begin(struct consul_json *json, char bracket); /* '{' or '[' */
void consul_json_end(struct consul_json *json, char bracket);   /* '}' or ']' */
void consul_json_name(struct consul_json *json, const char *name);
/* A name that is no constant. */
void consul_json_key(struct consul_json *json, struct bytes name);
/* Bytes that are not UTF-8 become the replacement character. */
void consul_json_text(struct consul_json *json, struct bytes text);
void consul_json_number(struct consul_json *json, int64_t number);
void consul_json_unsigned(struct consul_json *json, uint64_t number);
void consul_json_bool(struct consul_json *json, bool is_true);
void consul_json_null(struct consul_json *json);
/* Base64; null when it is empty. */
void consul_json_base64(struct consul_json *json, struct bytes bytes);
/* JSON already. */
void consul_json_raw(struct consul_json *json, struct bytes text);

/* A member of an object. */
void consul_json_set_text(struct consul_json *json, const char *name, struct bytes text);
void consul_json_set_chars(struct consul_json *json, const char *name, const char *text);
void consul_json_set_number(struct consul_json *json, const char *name, int64_t number);
void consul_json_set_bool(struct consul_json *json, const char *name, bool is_true);

/* --- Reading. --- */

/* NULL: not JSON, or nested deeper than anything that Consul takes. `out_why` is for people. */
json_t *consul_json_parse(struct bytes body, char *out_why, size_t why_size);
/* A member; NULL: there is none, or it is null. */
json_t *consul_json_find(const json_t *object, const char *name);
/* A text; `fallback` when there is none. False: it is something else. */
bool consul_json_get_text(const json_t *object, const char *name, struct bytes *out_text);
bool consul_json_get_bool(const json_t *object, const char *name, bool *out_value);
bool consul_json_get_number(const json_t *object, const char *name, int64_t *out_value);
/* An array of texts, in arena memory. */
bool consul_json_get_texts(const json_t *object, const char *name, struct arena *arena,
                           const struct bytes **out_texts, size_t *out_n);
/* A duration: Go's text ("10s"), or a number of nanoseconds. */
bool consul_json_get_duration(const json_t *object, const char *name, int64_t *out_ms);
/* "10s" and the like, signs included. */
bool consul_duration_read(struct bytes text, int64_t *out_ms);
/* Go's way to write it: "15s", "1m30s", "1h0m0s", "500ms". Gives `out`. */
const char *consul_duration_text(int64_t ms, char out[48]);

/* False: it is no base64. In arena memory. */
bool consul_base64_decode(struct bytes text, struct arena *arena, struct bytes *out_bytes);

#endif
