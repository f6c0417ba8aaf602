/*
 * A copy of what the server has, in memory: filled by a read, kept by a watch, and confirmed from
 * time to time by a read of the majority, because the watch of a member that is cut off says
 * nothing. It knows how old it is. Directories and services are such copies.
 *
 * Everything but lib_copy_open(), _wait(), _age_ms() and _close() with the mutex held.
 */
#ifndef LEASED_LEASE_LIB_COPY_H
#define LEASED_LEASE_LIB_COPY_H

#include "lease/lib_connection.h"

enum {
    LIB_COPY_AGAIN_MS = 200, /* before a lost stream is opened again */
    LIB_COPY_DOUBTS_MAX = 3  /* checks in a row that differ before all is read again */
};

struct lib_copy;

/* Constant. */
struct lib_copy_kind {
    const char *unsupported; /* what is said when the server does not know the method */
    /* Reads all, or opens the stream that tells all. */
    void (*begin)(struct lib_copy *copy);
    /* Asks whether the copy is current. */
    void (*check)(struct lib_copy *copy);
    /* Whether it is to be read again after a stream ended with such a code, beside those with which
     * connections end. NULL: with none. */
    bool (*may_pass)(enum lib_code code);
    /* The user's callback, without the mutex. */
    void (*notify)(struct lib_copy *copy, enum lease_status status, const char *text);
};

struct lib_copy {
    struct list link;
    struct lease_connection *connection;
    const struct lib_copy_kind *kind;
    struct lib_call *watch;
    struct lib_asking *reading;
    struct lib_asking *checking;
    uint64_t begin_ms; /* UINT64_MAX: it has begun, or is over */
    uint64_t check_ms; /* when it is checked next; UINT64_MAX: not now */
    bool is_told;      /* somebody wants the callback */
    bool is_filled;
    bool is_decided; /* it is filled, or over */
    bool is_over;
    bool is_notice_pending;
    enum lease_status status;
    char text[LIB_TEXT_SIZE_MAX];
    uint64_t current_ms; /* it is as it was at a moment after this one */
    unsigned n_doubts;
};

/* It is zeroed, and begins at once. */
void lib_copy_open(struct lib_copy *copy, struct lease_connection *connection,
                   const struct lib_copy_kind *kind, bool is_told);
/* Nothing is heard of it any more, and no callback runs; its memory is the caller's. */
void lib_copy_close(struct lib_copy *copy);

/* Something changed: many changes may be told as one. */
void lib_copy_tell(struct lib_copy *copy);
/* All is read again. What is there stays meanwhile, and grows older. */
void lib_copy_again(struct lib_copy *copy);
/* It is over. */
void lib_copy_fail(struct lib_copy *copy, enum lease_status status, const char *text);
/* A stream or a request ended: it is read again, or over. */
void lib_copy_ended(struct lib_copy *copy, enum lib_code code, const char *text);
/* It holds what was there when a request was sent, at least. */
void lib_copy_is_current(struct lib_copy *copy, uint64_t sent_ms);

/* LEASE_OK: it is filled, even if it is over by now. */
enum lease_status lib_copy_status(const struct lib_copy *copy);
/* -1: it was never filled. */
int64_t lib_copy_age(const struct lib_copy *copy);

enum lease_status lib_copy_wait(struct lib_copy *copy, int64_t limit_ms);
int64_t lib_copy_age_ms(struct lib_copy *copy);

/* All of a connection. */
void lib_copies_poll(struct lease_connection *connection, uint64_t now_ms);
uint64_t lib_copies_wake_ms(const struct lease_connection *connection);

#endif
