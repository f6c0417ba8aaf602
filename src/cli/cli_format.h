/*
 * How answers of a server are shown. Its texts come from whoever wrote them: on a terminal their
 * control characters are replaced, and in JSON what is not UTF-8 is null.
 */
#ifndef LEASED_CLI_CLI_FORMAT_H
#define LEASED_CLI_CLI_FORMAT_H

#include <lease.h>

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum { CLI_TEXT_SIZE_MAX = 1024, CLI_WALL_SIZE_MAX = 32 };

/* Without control characters, cut where it is too long. Gives `room`. Accepts NULL. */
const char *cli_plain(const char *text, char room[CLI_TEXT_SIZE_MAX]);
/* "backup", "catalog (shared)", "gpus=2 (0,1)", with commas between. Gives `room`. */
const char *cli_wants(const struct lease_acquisition *acquisition, char room[CLI_TEXT_SIZE_MAX]);
/* "2026-11-16 17:45:03", local time; "-" for 0. Gives `room`. */
const char *cli_wall_time(int64_t wall_ms, char room[CLI_WALL_SIZE_MAX]);
/* "12s", "1.5s", "-" where it is not known (below 0). Gives `room`. */
const char *cli_remaining(int64_t remaining_ms, char room[CLI_WALL_SIZE_MAX]);

/* A string, or null where it is not UTF-8 or NULL. */
json_t *cli_json_text(const char *text);
json_t *cli_json_id(int64_t id);
json_t *cli_acquisition_json(const struct lease_acquisition *acquisition);
json_t *cli_session_json(const struct lease_session_info *session);
json_t *cli_ended_json(const struct lease_ended *ended);
/* As one line on standard output; frees it. */
void cli_print_json(json_t *json);

#endif
