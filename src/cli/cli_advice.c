#include "cli/cli_advice.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Parts of texts of the etcd API, of the native API, and of the system. NULL: the text has it. */
static const struct {
    const char *part;
    const char *next;
} advices[] = {
    {"use https://", NULL},
    {"does not speak HTTP/2", "name the client port of leased or etcd, 2379 unless changed"},
    {"connection refused",
     "no server listens there; start leased, or name another server with --endpoint"},
    {"user name is empty",
     "authentication is on: give --user NAME:PASSWORD, or a client certificate with --cert and "
     "--key"},
    {"invalid user ID or password", "check --user NAME:PASSWORD"},
    {"root user does not exist",
     "run `lease user add root` and `lease user grant root root` first"},
    {"database space exceeded",
     "delete keys, compact, disarm the alarm: `A full key store` in docs/operations.md"},
    {"space for keys is used up",
     "delete keys, compact, disarm the alarm: `A full key store` in docs/operations.md"},
    {"permission denied",
     "a user with the role root can grant the right: `lease role grant`, `lease user grant`"},
    {"member not found", "`lease member ls` lists the members"},
    {"user name not found", "`lease user ls` lists the users"},
    {"role name not found", "`lease role ls` lists the roles"},
    {"there is no such pool", "`lease pool ls` lists the pools"},
    {"requested lease not found", "`lease ls` lists sessions and leases"},
    {"there is no such session", "`lease ls` lists sessions and leases"},
};

void cli_advice_print(const char *text) {
    const char *next = NULL;
    for (size_t i = 0; i < sizeof advices / sizeof advices[0]; i++) {
        if (strcasestr(text, advices[i].part) != NULL) {
            next = advices[i].next;
            break;
        }
    }
    fprintf(stderr, "lease: %s%s%s\n", text, next != NULL ? "; " : "", next != NULL ? next : "");
}
