/*
 * How often passwords may be tried: for one user from one address, from one address, and for one
 * user from anywhere. The addresses of one IPv6 network of 64 bits, which one client may have all
 * of, are one. Each is a bucket of attempts that fills again with time; an attempt that
 * succeeds is given back. A table of fixed size: under attack buckets are shared, which makes
 * limits narrower, never wider.
 */
#ifndef LEASED_SERVER_LOGIN_LIMITS_H
#define LEASED_SERVER_LOGIN_LIMITS_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    LOGIN_PAIR_BURST = 10,       /* attempts at once, one user from one address */
    LOGIN_ADDRESS_BURST = 50,    /* one address, whatever the user */
    LOGIN_USER_BURST = 200,      /* one user, from wherever */
    LOGIN_REFILL_MS = 60 * 1000, /* an empty bucket is full again after this */
    LOGIN_BUCKETS = 4096
};

struct login_limits;

/* Aborts when memory is out. The seed is random and secret. */
struct login_limits *login_limits_create(uint64_t seed);
void login_limits_destroy(struct login_limits *limits);

/* Takes an attempt out of its buckets. The address is an IPv6 one in brackets, or any other text.
 * False: one of them is empty, and nothing was taken. `out_attempt` is for
 * login_limits_succeeded(). */
bool login_limits_try(struct login_limits *limits, struct bytes user, const char *address,
                      uint64_t now_ms, uint64_t *out_attempt);
/* Gives the attempt back. */
void login_limits_succeeded(struct login_limits *limits, uint64_t attempt);

#endif
