/* Times of expiry in arguments, as Redis reads them. */
#ifndef LEASED_DOORS_REDIS_REDIS_EXPIRE_RULES_H
#define LEASED_DOORS_REDIS_REDIS_EXPIRE_RULES_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct redis_run;

enum redis_expiry_unit {
    REDIS_EXPIRY_SECONDS,
    REDIS_EXPIRY_MILLISECONDS,
    REDIS_EXPIRY_AT_SECONDS,
    REDIS_EXPIRY_AT_MILLISECONDS
};

struct redis_expiry {
    int64_t ttl_ms;      /* from now; 0 or less: it has passed */
    int64_t deadline_ms; /* wall time */
};

/* EX, PX, EXAT, PXAT. */
bool redis_expiry_unit_of(struct bytes word, enum redis_expiry_unit *out_unit);
/* False: the error is the reply. `must_be_positive`: as of SET, whose argument must be more than 0.
 */
bool redis_expiry_get(struct redis_run *run, struct bytes argument, enum redis_expiry_unit unit,
                      bool must_be_positive, struct redis_expiry *out_expiry);

#endif
