/*
 * Where `lease render` writes: a file that is replaced as a whole, by a rename, and only when its
 * content changes; or standard output. A reader sees the old content or the new one.
 */
#ifndef LEASED_CLI_RENDER_OUTPUT_H
#define LEASED_CLI_RENDER_OUTPUT_H

#include "base/bytes.h"

#include <stdbool.h>

enum { RENDER_PATH_SIZE_MAX = 4096 };

struct render_output {
    char path[RENDER_PATH_SIZE_MAX]; /* "": standard output, which is no file of its own */
    bool is_of_shell;                /* the shell's `> file`, found by its descriptor */
};

/* `path` NULL: standard output. A regular file there, which the shell has emptied, is replaced like
 * any other. False: the path is too long. */
bool render_output_init(struct render_output *output, const char *path);

enum render_written { RENDER_WRITTEN, RENDER_UNCHANGED, RENDER_NOT_WRITTEN };
/* RENDER_NOT_WRITTEN: errno says why, and nothing was changed. */
enum render_written render_output_write(const struct render_output *output, struct bytes content);

/* Runs it by the shell and waits for its end. Its exit code, as a shell tells it. */
int render_output_run(const char *command);

#endif
