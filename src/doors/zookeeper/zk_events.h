/*
 * What watches are told, in the order of the changes. Before an answer is sent, everything that the
 * state has by then is told: so an event always comes before an answer that shows its change. A
 * change that comes when nobody asks is told by a watch of the whole key space.
 */
#ifndef LEASED_DOORS_ZOOKEEPER_ZK_EVENTS_H
#define LEASED_DOORS_ZOOKEEPER_ZK_EVENTS_H

#include "base/bytes.h"

#include <stdbool.h>

struct zk_connection;
struct zk_door;

/* leased's own rights, which were asked for when the watch was set and may have been taken away. */
bool zk_events_may_be_told(struct zk_connection *connection, struct bytes path);

/* Tells what was changed since the last call. False: not all of it, which is much; the rest follows
 * in the next iterations. Until then nothing that may show it is answered to those who watch. */
bool zk_events_catch_up(struct zk_door *door);
/* As above, for an answer that cannot wait: tells more in this iteration. */
bool zk_events_catch_up_urgently(struct zk_door *door);
/* With the first connection. */
void zk_events_begin(struct zk_door *door);
/* With the last one. */
void zk_events_end(struct zk_door *door);

#endif
