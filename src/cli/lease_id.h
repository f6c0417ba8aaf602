/*
 * Lease ids as etcd's tools show them: the 64 bits in lower-case hex, at least one digit, so a
 * negative id has sixteen.
 */
#ifndef LEASED_CLI_LEASE_ID_H
#define LEASED_CLI_LEASE_ID_H

#include "base/status.h"

#include <stdint.h>

#define LEASE_ID_TEXT_SIZE_MAX 17

/* Hex digits, "0x" before them allowed. STATUS_MALFORMED otherwise or over 64 bits. */
enum status lease_id_parse(const char *text, int64_t *out_id);

/* Gives `room`. */
const char *lease_id_format(int64_t id, char room[LEASE_ID_TEXT_SIZE_MAX]);

#endif
