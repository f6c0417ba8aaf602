/*
 * Passwords hashed and verified by libxcrypt (yescrypt) on libuv's workers. Slow by design, so a
 * few run at once, a few more wait, and further ones are refused. What is urgent has room of its
 * own and comes first, so that a flood of guesses keeps nobody out who is known.
 */
#ifndef LEASED_SERVER_PASSWORD_HASHER_H
#define LEASED_SERVER_PASSWORD_HASHER_H

#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>
#include <uv.h>

enum {
    PASSWORD_SIZE_MAX = 511,       /* libxcrypt's */
    PASSWORD_JOBS_MAX = 64,        /* waiting or running */
    PASSWORD_URGENT_JOBS_MAX = 16, /* the same, of those that are urgent */
    PASSWORD_RUNNING_MAX = 2       /* the workers have other work, too */
};

struct password_hasher;
struct password_job;

/* Called once on the loop, unless the job is canceled. Of a verification: STATUS_OK or
 * STATUS_AUTH_FAILED. Of a hash: STATUS_OK with the hash, borrowed for the call. */
typedef void (*password_done)(void *data, enum status status, struct bytes hash);

/* Aborts when memory is out. */
struct password_hasher *password_hasher_create(uv_loop_t *loop);
/* Jobs are canceled; the loop must run until those that a worker has come back. NULL is fine. */
void password_hasher_destroy(struct password_hasher *hasher);

/* True when a password can be hashed at all: its length, and no zero byte in it. */
bool password_is_usable(struct bytes password);

/* NULL: there are too many. Both copy what they are given. To hash is urgent: only root may. An
 * empty hash is that of no user: it takes as long as another, and fails. */
struct password_job *password_hasher_verify(struct password_hasher *hasher, struct bytes password,
                                            struct bytes hash, bool is_urgent, password_done done,
                                            void *data);
struct password_job *password_hasher_hash(struct password_hasher *hasher, struct bytes password,
                                          password_done done, void *data);
/* The job is gone; one that only waited is never run. */
void password_job_cancel(struct password_job *job);

#endif
