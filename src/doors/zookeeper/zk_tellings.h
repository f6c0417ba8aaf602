/*
 * Events on their way to the connections that watch. What is much for one iteration of the loop, or
 * for a client that has not taken enough, waits in memory that all of them share, and the answers
 * of such a connection wait behind its events. Who is so far behind that there is no more room is
 * closed.
 */
#ifndef LEASED_DOORS_ZOOKEEPER_ZK_TELLINGS_H
#define LEASED_DOORS_ZOOKEEPER_ZK_TELLINGS_H

#include "base/bytes.h"
#include "doors/zookeeper/zk_watches.h"

#include <stdbool.h>

struct zk_connection;
struct zk_door;

void zk_tellings_open(struct zk_door *door);
/* When all connections are over. */
void zk_tellings_close(const struct zk_door *door);

/* Around an event that several may be told of. */
void zk_tellings_begin(struct zk_door *door);
void zk_tellings_end(struct zk_door *door);
/* Now or later. */
void zk_tellings_tell(struct zk_connection *connection, enum zk_event_type type, struct bytes path);

/* History was compacted away, or the state was replaced by a snapshot: what the watches of all
 * connections have missed since then is found by comparing with what is there. */
void zk_tellings_compare_all(struct zk_door *door, int64_t since);

/* This iteration of the loop has told enough. */
bool zk_tellings_are_many(struct zk_door *door);
/* It has looked for enough of those who are told. `is_urgent`: and for answers that cannot wait. */
bool zk_tellings_are_much_work(struct zk_door *door, bool is_urgent);
/* Tells what waits. True: nothing does any more. False: zk_requests_go_on() follows. `is_urgent`:
 * all of it, whatever that takes. */
bool zk_tellings_go_on(struct zk_connection *connection, bool is_urgent);
/* True: something waits. */
bool zk_tellings_are_awaited(const struct zk_connection *connection);
/* What waits, or will, is of changes since this revision. To be called before it does. */
void zk_tellings_since(struct zk_connection *connection, int64_t since);
/* The zxid of an answer that goes before events that wait: one before their changes. */
int64_t zk_tellings_zxid(const struct zk_connection *connection, int64_t zxid);

/* The connection is over. */
void zk_tellings_drop(struct zk_connection *connection);

#endif
