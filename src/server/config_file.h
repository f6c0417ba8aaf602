/*
 * etcd's --config-file: a YAML mapping of flags' names to values. Lists are flags with commas; the
 * sections client-transport-security and peer-transport-security hold those of TLS. Nothing else
 * may be nested. The file is bounded, and every byte of it is checked by libyaml.
 */
#ifndef LEASED_SERVER_CONFIG_FILE_H
#define LEASED_SERVER_CONFIG_FILE_H

#include "base/arena.h"
#include "base/status.h"

#include <stddef.h>

enum { CONFIG_FILE_SIZE_MAX = 1024 * 1024, CONFIG_FILE_VALUE_MAX = 64 * 1024 };

/* Called for every value, with the name of the flag that it stands for; both are in the arena. */
typedef enum status (*config_file_visit)(void *data, const char *name, const char *value,
                                         char *out_error, size_t error_size);

/* STATUS_IO, STATUS_INVALID, or what a visit said, with the reason, which names the file and the
 * line. */
enum status config_file_read(const char *path, struct arena *arena, config_file_visit visit,
                             void *data, char *out_error, size_t error_size);

#endif
