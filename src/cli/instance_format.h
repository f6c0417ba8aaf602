/* How instances of services are shown. */
#ifndef LEASED_CLI_INSTANCE_FORMAT_H
#define LEASED_CLI_INSTANCE_FORMAT_H

#include "cli/cli_format.h"

/* "passing", or what is stronger: "kept", "expired", "draining", "critical". Never NULL. */
const char *cli_instance_mark(const struct lease_instance *instance);
/* The table, and a line before it when the guard is on or the list is old. */
void cli_print_instances(const struct lease_instance_list *list);
json_t *cli_instance_json(const struct lease_instance *instance);
json_t *cli_service_json(const struct lease_service_info *service);

#endif
