/*
 * The command line of `leased restore`: etcdutl's flags. What describes the member is parsed by the
 * server's own options, so that restore and start agree on it.
 */
#ifndef LEASED_SERVER_RESTORE_OPTIONS_H
#define LEASED_SERVER_RESTORE_OPTIONS_H

#include "server/options.h"

struct restore_options {
    const char *file;
    bool is_hash_skipped;
    uint64_t bump_revision;
    bool is_marked_compacted;
    bool is_help;
    struct options member; /* name, data directory, URLs, members, token */
};

/* STATUS_INVALID with a reason. To be cleared whatever the result. */
enum status restore_options_parse(struct restore_options *options, const struct door_list *doors,
                                  int argc, char **argv, char out_error[OPTIONS_ERROR_SIZE]);
void restore_options_clear(struct restore_options *options);
void restore_options_print_help(FILE *stream);

#endif
