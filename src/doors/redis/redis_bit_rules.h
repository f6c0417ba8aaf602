/* What is told of the commands for bits before they run. */
#ifndef LEASED_DOORS_REDIS_REDIS_BIT_RULES_H
#define LEASED_DOORS_REDIS_REDIS_BIT_RULES_H

#include "base/bytes.h"
#include "doors/redis/redis_command_rules.h"

#include <stddef.h>

/* How many bytes a value has at least when the command has run; 0: it writes none, or is refused.
 */
size_t redis_bits_written(const struct redis_command *command, const struct bytes *argv,
                          size_t argc);

#endif
