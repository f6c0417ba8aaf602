/*
 * A session with a ZooKeeper server: requests are queued and sent together, answers come in their
 * order. Whatever fails is in job->error, and the link is of no more use.
 */
#ifndef LEASED_CLI_ZK_LINK_H
#define LEASED_CLI_ZK_LINK_H

#include "base/arena.h"
#include "base/buffer.h"
#include "cli/import.h"
#include "client/zk_codec.h"

struct zk_link {
    struct import_job *job;
    const struct import_url *url;
    struct wire_stream *stream;
    struct buffer out;
    int32_t next_xid;     /* of the next request */
    int32_t answered_xid; /* of the next answer */
    uint64_t sent_ms;
};

bool zk_link_open(struct zk_link *link, struct import_job *job, const struct import_url *url);
/* Ends the session. */
void zk_link_close(struct zk_link *link);

/* An identity for the session. STATUS of the server: false, with job->error. */
bool zk_link_auth(struct zk_link *link, const char *scheme, const char *credentials);

/* The number for the next request, which goes to link->out. */
int32_t zk_link_xid(struct zk_link *link);
void zk_link_ask(struct zk_link *link, enum zk_opcode opcode, struct bytes path);
bool zk_link_send(struct zk_link *link);
/* The next answer, its body in the arena. */
bool zk_link_answer(struct zk_link *link, struct arena *arena, struct zk_answer *out);
/* Now and then, so that a session that waits for the other one's work is not over. */
bool zk_link_stay(struct zk_link *link);

#endif
