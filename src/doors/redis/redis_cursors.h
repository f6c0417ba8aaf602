/*
 * Cursors of SCAN. The protocol wants numbers, and the order of keys has none: so a member
 * remembers for the last REDIS_CURSORS_MAX numbers that it gave out which key they stand for. Older
 * ones are refused as unknown.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_CURSORS_H
#define LEASED_DOORS_REDIS_REDIS_CURSORS_H

#include "doors/redis/redis_run_rules.h"

enum { REDIS_CURSORS_MAX = 1024 };

struct redis_cursors;

struct redis_cursors *redis_cursors_create(void);
void redis_cursors_destroy(struct redis_cursors *cursors);
struct redis_cursor_table redis_cursors_table(struct redis_cursors *cursors);

#endif
