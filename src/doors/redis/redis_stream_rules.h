/* Ids of streams, as clients read them. */
#ifndef LEASED_DOORS_REDIS_REDIS_STREAM_RULES_H
#define LEASED_DOORS_REDIS_REDIS_STREAM_RULES_H

#include "doors/redis/redis_keys.h"

#include <stddef.h>

enum { REDIS_STREAM_ID_SIZE = 48 };

/* "5-3"; returns its size. */
size_t redis_stream_id_text(struct redis_stream_id id, char out_text[REDIS_STREAM_ID_SIZE]);
/* "5-3" or "5". False: it is none, and 0-0 is written. */
bool redis_stream_id_parse(struct bytes text, struct redis_stream_id *out_id);

#endif
