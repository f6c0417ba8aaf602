/*
 * Answers that take long to make, or are large: made by a worker from a view of the state, in
 * parts, as fast as the client takes them. So no request holds the loop up, and an answer of any
 * size holds no more memory than a part of it.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_LONG_READ_H
#define LEASED_DOORS_ETCD_ETCD_LONG_READ_H

#include "doors/etcd/etcd_call.h"

/* Who reads more records, or has a larger answer, reads long. */
enum { ETCD_SHORT_READ_RECORDS_MAX = 256, ETCD_SHORT_READ_BYTES_MAX = 64 * 1024 };

/* Parts are about this large; one record may make one larger. */
enum { ETCD_LONG_READ_PART_SIZE = 256 * 1024 };

/* What a kind of long read adds to struct etcd_long_read; all of it runs in the worker. */
struct etcd_long_read_kind {
    size_t size; /* of its struct, which begins with struct etcd_long_read */
    /* Finds out what to answer and how many bytes that takes. Anything but STATUS_OK is the
     * answer. */
    enum status (*measure)(struct etcd_long_read *read, size_t *out_size);
    /* Appends about ETCD_LONG_READ_PART_SIZE bytes more to `part`, or the rest. */
    void (*write)(struct etcd_long_read *read);
    /* It writes all at once, at most ETCD_OUTCOME_SIZE_MAX: a large answer is written when there is
     * memory for it, which all of them share. */
    bool is_whole;
    /* NULL: nothing of its own to free. On the loop. */
    void (*clear)(struct etcd_long_read *read);
};

struct etcd_long_read {
    const struct etcd_long_read_kind *kind;
    struct etcd_call *waiting;
    struct service_scan scan;
    struct etcd_identity identity; /* as it was when the read began: the door's own may change */
    struct etcd_header header;     /* of the view's revision, from measure() on */
    struct arena arena;            /* the worker's */
    struct buffer part;
    size_t size; /* of the whole answer */
    size_t sent;
    enum status status;
    bool is_measured;
    bool waits_for_memory;
    size_t whole_bytes; /* of door->whole_bytes */
};

/* A zeroed object of the kind, for what its measure() needs to know; then start. The call belongs
 * to the read from here on. NULL: out of memory, and the call was ended. */
struct etcd_long_read *etcd_long_read_create(struct grpc_call *call,
                                             const struct etcd_long_read_kind *kind);
/* The ranges are those that will be read, borrowed for the call. Answers the call in any case. */
void etcd_long_read_start(struct etcd_long_read *read, const struct key_range *ranges,
                          size_t n_ranges);

/* In the place of start: answers with an error. */
void etcd_long_read_cancel(struct etcd_long_read *read, enum status status);

/* The call is over, or has room again: for etcd_call.c. */
void etcd_long_read_closed(struct etcd_long_read *read);
void etcd_long_read_writable(struct etcd_long_read *read);

/* Room in the part for exactly so many bytes. */
void etcd_long_read_reserve(struct etcd_long_read *read, size_t size, struct pb_writer *writer);
/* They were written. */
void etcd_long_read_commit(struct etcd_long_read *read, struct pb_writer *writer);

#endif
