/* The program that a check names; see check_command.h. */
#include "checks/check_command.h"
#include "checks/check_probe.h"

#include <stdlib.h>

struct command_probe {
    struct check_probe base;
    struct check_command *command;
};

static void on_done(void *context, const struct check_result *result) {
    struct command_probe *probe = context;
    struct check_probe_owner owner = probe->base.owner;
    free(probe);
    owner.done(owner.context, result);
}

static struct check_probe *start(struct check_network *network, const struct registry_check *check,
                                 const struct check_probe_owner *owner,
                                 struct check_result *out_result) {
    struct command_probe *probe = calloc(1, sizeof *probe);
    if (probe == NULL) {
        abort();
    }
    probe->base = (struct check_probe){.kind = &check_probe_command, .owner = *owner};
    probe->command =
        check_command_start(network->commands, check->target, on_done, probe, out_result);
    if (probe->command == NULL) {
        free(probe);
        return NULL;
    }
    return &probe->base;
}

static void cancel(struct check_probe *base) {
    struct command_probe *probe = (struct command_probe *)base;
    check_command_cancel(probe->command);
    free(probe);
}

const struct check_probe_kind check_probe_command = {.start = start, .cancel = cancel};
