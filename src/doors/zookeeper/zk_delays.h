/*
 * The time that reads may take in one iteration of the loop, in which everybody else waits. When it
 * is over, a connection with reads is put at the end of a list, and goes on in the next iteration.
 *
 * Changes that write anew what is large, a few at a time; and while history that fills the quota is
 * being freed, those that make more of it wait.
 */
#ifndef LEASED_DOORS_ZOOKEEPER_ZK_DELAYS_H
#define LEASED_DOORS_ZOOKEEPER_ZK_DELAYS_H

#include <stdbool.h>
#include <stddef.h>

struct zk_connection;
struct zk_door;

void zk_delays_open(struct zk_door *door);
/* No connection goes on any more. */
void zk_delays_stop(struct zk_door *door);
void zk_delays_close(struct zk_door *door);

/* Around everything that takes time. */
void zk_delays_begin(struct zk_door *door);
void zk_delays_end(struct zk_door *door);
bool zk_delays_is_slice_over(const struct zk_door *door);

/* zk_events_catch_up() follows, in the next iteration. */
void zk_delays_wake(struct zk_door *door);
/* zk_requests_go_on() follows, in the next iteration. */
void zk_delays_add(struct zk_connection *connection);
/* Whether the connection may submit a change: the size of its request, and of what it writes anew
 * beside that. False: zk_requests_go_on() follows later. */
bool zk_delays_admit_change(struct zk_connection *connection, size_t size, size_t rewritten);
/* zk_requests_go_on() follows later: clients have to take what they were sent. */
void zk_delays_wait_for_room(struct zk_connection *connection);
/* The change was submitted; it was answered, or nobody waits for it any more. */
void zk_delays_change_begun(struct zk_door *door, size_t size, size_t rewritten);
void zk_delays_change_ended(struct zk_door *door, size_t size, size_t rewritten);
/* The connection is over. */
void zk_delays_remove(struct zk_connection *connection);

#endif
