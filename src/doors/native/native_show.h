/*
 * What is kept, found in the state and written as messages of the wire. Of an acquisition a caller
 * is shown the names that it may read, and none of it when it may read none of them.
 */
#ifndef LEASED_DOORS_NATIVE_NATIVE_SHOW_H
#define LEASED_DOORS_NATIVE_NATIVE_SHOW_H

#include "base/buffer.h"
#include "doors/native/native_call.h"
#include "doors/native/native_model.h"

/* Holders of one resource or pool that an answer shows at most, and those that wait for it. */
enum { NATIVE_HOLDERS_SHOWN_MAX = 16, NATIVE_WAITERS_SHOWN_MAX = 100 };

/* --- Finding. What is found points into the state, and into the door's arena. --- */

struct native_session_facts {
    int64_t id;
    struct native_session session;
    int64_t ttl_ms; /* as it is now */
    int64_t parent_id;
    int64_t created_revision;
    size_t n_acquisitions;
};
bool native_find_session(struct native_door *door, int64_t id, struct native_session_facts *out);
/* The same of a record of a session; false: it is none, or is being ended. */
bool native_read_session(struct native_door *door, const struct record *record,
                         struct native_session_facts *out);
bool native_find_acquisition(struct native_door *door, int64_t id, struct native_acquisition *out);

/* The ids of acquisitions that have the resource or slots of the pool, at most `capacity`, each
 * once. */
size_t native_find_holders(struct native_door *door, bool is_pool, struct bytes name, int64_t *out,
                           size_t capacity);
/* Those that the acquisition waits for: of the first want that somebody else has. */
size_t native_find_blockers(struct native_door *door, const struct native_acquisition *acquisition,
                            int64_t *out, size_t capacity);

/* --- Showing: each appends one message as this field. --- */

void native_show_session(struct buffer *out, uint32_t field,
                         const struct native_session_facts *facts, int64_t remaining_ms);
/* False: the caller may see nothing of it, and nothing was appended. */
bool native_show_acquisition(struct buffer *out, uint32_t field, struct native_door *door,
                             const struct caller *caller,
                             const struct native_acquisition *acquisition);
/* Those acquisitions that there are. */
void native_show_acquisitions(struct buffer *out, uint32_t field, struct native_door *door,
                              const struct caller *caller, const int64_t *ids, size_t n);
/* False: as above. */
bool native_show_ended(struct buffer *out, uint32_t field, struct native_door *door,
                       const struct caller *caller, const struct native_ended *ended);

struct native_state_shown {
    struct bytes name;
    size_t n_waiters_max; /* of those that wait, so many are shown */
    int64_t remaining_ms; /* of the first holder's session; -1: not known */
};
/* A ResourceState. */
void native_show_resource(struct buffer *out, uint32_t field, struct native_door *door,
                          const struct caller *caller, const struct native_state_shown *shown);

#endif
