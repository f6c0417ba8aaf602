/*
 * What a newcomer reads once the server is ready: where it serves, the data directory, and three
 * commands to try, written so that they can be copied.
 */
#ifndef LEASED_SERVER_WELCOME_H
#define LEASED_SERVER_WELCOME_H

#include <stdio.h>

/* `client_url` is the advertised one, `tls_flags` what they need besides it ("" or flags that
 * both programs have), `data_path` is absolute. */
void welcome_print(FILE *stream, const char *client_url, const char *tls_flags,
                   const char *data_path);

/* How to call `lease`: by its name when it is in `search_path` (as in PATH), else by the path of
 * the one beside this program, from the working directory if that is above it. */
void welcome_lease_command(const char *program_path, const char *working_path,
                           const char *search_path, char *out_command, size_t size);

#endif
