/*
 * Where `lease import` reads from and writes to:
 * redis[s]://[USER[:PASSWORD]@]HOST[:PORT][/DB] and zk://HOST[:PORT][/PATH]; the destination may
 * leave the scheme out. User and password may be percent-encoded.
 */
#ifndef LEASED_CLI_IMPORT_URL_H
#define LEASED_CLI_IMPORT_URL_H

#include "base/host_port.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum import_protocol { IMPORT_REDIS, IMPORT_ZOOKEEPER };

enum { IMPORT_CREDENTIAL_SIZE_MAX = 512, IMPORT_PATH_SIZE_MAX = 1024, IMPORT_DATABASES_MAX = 1024 };

struct import_url {
    enum import_protocol protocol;
    bool is_tls;
    struct host_port place;
    char user[IMPORT_CREDENTIAL_SIZE_MAX];     /* "": none */
    char password[IMPORT_CREDENTIAL_SIZE_MAX]; /* "": none */
    bool has_path;                             /* a database or a path was named */
    uint32_t database;
    char path[IMPORT_PATH_SIZE_MAX]; /* "/" or "/a/b", never with a slash at its end */
};

/* STATUS_MALFORMED: `out_reason` is a sentence. */
enum status import_url_parse(const char *text, struct import_url *out_url, const char **out_reason);
/* The same without a scheme: of this protocol. */
enum status import_url_parse_as(enum import_protocol protocol, const char *text,
                                struct import_url *out_url, const char **out_reason);

#endif
