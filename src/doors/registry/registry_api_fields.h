/*
 * Parts of requests that many messages have: repeated texts and pairs, and numbers within their
 * bounds. What they point to is the message's and arena memory.
 */
#ifndef LEASED_DOORS_REGISTRY_REGISTRY_API_FIELDS_H
#define LEASED_DOORS_REGISTRY_REGISTRY_API_FIELDS_H

#include "base/arena.h"
#include "base/pb_reader.h"
#include "registry/registry_model.h"

#define REGISTRY_API_TIME_MS_MAX INT64_C(9000000000000)

/* Not negative and at most REGISTRY_API_TIME_MS_MAX. */
bool registry_api_fields_is_time(int64_t ms);

/* All values of a field; false: malformed, or more than `max`. */
bool registry_api_fields_texts(struct bytes message, uint32_t field, size_t max,
                               struct arena *arena, const struct bytes **out_texts, size_t *out_n);
/* The same for pairs: at most REGISTRY_PAIRS_MAX. */
bool registry_api_fields_pairs(struct bytes message, uint32_t field, struct arena *arena,
                               const struct registry_pair **out_pairs, size_t *out_n);

/* The field that was found; sets reader->failed when it is out of bounds. */
uint16_t registry_api_fields_number16(struct pb_reader *reader);
uint32_t registry_api_fields_number32(struct pb_reader *reader);
/* Below n. */
uint8_t registry_api_fields_choice(struct pb_reader *reader, int32_t n);

#endif
