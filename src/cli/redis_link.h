/*
 * A connection to a Redis server: commands are queued and sent together, replies come in their
 * order. Whatever fails is in job->error, and the link is of no more use.
 */
#ifndef LEASED_CLI_REDIS_LINK_H
#define LEASED_CLI_REDIS_LINK_H

#include "base/arena.h"
#include "base/buffer.h"
#include "cli/import.h"
#include "client/resp_codec.h"

struct redis_link {
    struct import_job *job;
    const struct import_url *url;
    struct wire_stream *stream;
    struct buffer out;
    struct resp_scanner scanner;
};

/* Connects, and shows `user` and `password` where there is a password. */
bool redis_link_open(struct redis_link *link, struct import_job *job, const struct import_url *url,
                     const char *user, const char *password);
void redis_link_close(struct redis_link *link);

/* Queue a command on a key; more words are appended to link->out by the caller. */
void redis_link_key(struct redis_link *link, const char *name, struct bytes key);
void redis_link_begin(struct redis_link *link, const char *name, struct bytes key, size_t n_more);

bool redis_link_send(struct redis_link *link);
/* The next reply, in the arena. */
bool redis_link_reply(struct redis_link *link, struct arena *arena, struct resp_reply *out);
/* The same where anything but this kind ends the run. */
bool redis_link_expect(struct redis_link *link, struct arena *arena, enum resp_kind kind,
                       struct resp_reply *out);

bool redis_link_select(struct redis_link *link, struct arena *arena, uint32_t database);

#endif
