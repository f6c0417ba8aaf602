/*
 * The keys that a set of permissions covers, merged: two permissions that touch are one range.
 * Built once, asked often.
 */
#ifndef LEASED_CORE_AUTH_RANGES_H
#define LEASED_CORE_AUTH_RANGES_H

#include "core/permission.h"

#include <stddef.h>

struct auth_ranges;

/* Copies what it needs of the permissions. */
struct auth_ranges *auth_ranges_create(const struct permission *const *permissions, size_t n);
void auth_ranges_destroy(struct auth_ranges *ranges);

/* True when every key of the range is covered by every bit of the right. */
bool auth_ranges_cover(const struct auth_ranges *ranges, enum right right,
                       const struct key_range *range);

/* True when some key of the space may be written. */
bool auth_ranges_may_write(const struct auth_ranges *ranges, struct key_space_id space);

#endif
