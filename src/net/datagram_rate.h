/*
 * How many datagrams a network may send in a second: buckets of tokens in a table of fixed size,
 * with a hash that others cannot predict. Two networks that meet in one bucket share it while both
 * are active.
 */
#ifndef LEASED_NET_DATAGRAM_RATE_H
#define LEASED_NET_DATAGRAM_RATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct datagram_rate;

/* Aborts when memory is out. */
struct datagram_rate *datagram_rate_create(uint32_t per_second_max);
/* Accepts NULL. */
void datagram_rate_destroy(struct datagram_rate *rate);

/* True: one more is allowed, and counted. */
bool datagram_rate_allow(struct datagram_rate *rate, const struct sockaddr *from, uint64_t now_ms);

#endif
