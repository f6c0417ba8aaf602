/* What the codecs of the registry share: texts, counts and pairs out of untrusted bytes. */
#ifndef LEASED_REGISTRY_REGISTRY_TEXT_MODEL_H
#define LEASED_REGISTRY_REGISTRY_TEXT_MODEL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "registry/registry_model.h"

/* UTF-8 without NUL, at most so long; may be empty. */
bool registry_text_is_valid(struct bytes text, size_t size_max);
/* Empty, or a name (registry_name_is_valid()). */
bool registry_word_is_valid(struct bytes word);
/* Keys are not empty and there is each once. */
bool registry_pairs_are_valid(const struct registry_pair *pairs, size_t n, bool may_repeat);

/* All bytes were read, and all of them well. */
bool registry_is_read(const struct reader *reader);
/* A count of things that take at least `size` bytes each: memory is taken for no more. */
size_t registry_get_count(struct reader *reader, size_t size, size_t max);
/* A byte below `end`. */
uint8_t registry_get_choice(struct reader *reader, uint8_t end);
/* 0 or 1. */
bool registry_get_flag(struct reader *reader);
/* A varint up to `max`. */
uint64_t registry_get_number(struct reader *reader, uint64_t max);

void registry_put_pairs(struct buffer *out, const struct registry_pair *pairs, size_t n);
/* In arena memory. */
const struct registry_pair *registry_get_pairs(struct reader *reader, struct arena *arena,
                                               size_t *out_n);

#endif
