/*
 * What the server says of sessions, resources, pools and ends, from the bytes of leased.v1 into the
 * public structures. Everything that they point to is in the arena. False: malformed.
 */
#ifndef LEASED_LEASE_LIB_READ_H
#define LEASED_LEASE_LIB_READ_H

#include "base/arena.h"
#include "base/pb_reader.h"

#include <lease.h>

/* Of one kind in one message; more are malformed: a few bytes each become a hundred here. */
enum { LIB_ITEMS_MAX = 100000 };

/* A copy with NUL; never NULL. */
const char *lib_read_text(struct arena *arena, struct bytes text);
const char *lib_read_text_field(struct arena *arena, struct pb_reader *reader);
uint32_t lib_read_uint32(struct pb_reader *reader); /* what is larger is UINT32_MAX */
/* How often a field is there; SIZE_MAX: too often, or malformed. */
size_t lib_read_count(struct bytes message, uint32_t field);

bool lib_read_acquisition(struct arena *arena, struct bytes message, struct lease_acquisition *out);
bool lib_read_session(struct arena *arena, struct bytes message, struct lease_session_info *out);
bool lib_read_resource(struct arena *arena, struct bytes message, struct lease_resource *out);
bool lib_read_pool_state(struct arena *arena, struct bytes message, struct lease_pool *out);
bool lib_read_ended(struct arena *arena, struct bytes message, struct lease_ended *out);
/* The revision in a Header. */
bool lib_read_header(struct bytes message, int64_t *out_revision);

/* All messages of a repeated field as an array. */
struct lib_array {
    void *items;
    size_t n_items;
};
typedef bool lib_read_item(struct arena *arena, struct bytes message, void *out);
bool lib_read_array(struct arena *arena, struct bytes message, uint32_t field, size_t item_size,
                    lib_read_item *read, struct lib_array *out);
/* The same of texts: items are const char *. */
bool lib_read_texts(struct arena *arena, struct bytes message, uint32_t field,
                    struct lib_array *out);
bool lib_read_acquisitions(struct arena *arena, struct bytes message, uint32_t field,
                           const struct lease_acquisition **out_items, size_t *out_n);

#endif
