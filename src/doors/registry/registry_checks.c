#include "doors/registry/registry_checks.h"

enum {
    FLAG_ENABLE_SCRIPTS,
    FLAG_SCRIPTS_ALLOW,
    FLAG_SCRIPTS_USER,
    FLAG_ALLOW_NET,
    FLAG_CA_FILE,
};

const struct door_flag registry_flags[REGISTRY_N_FLAGS] = {
    [FLAG_ENABLE_SCRIPTS] = {.name = "enable-script-checks",
                             .kind = DOOR_FLAG_SWITCH,
                             .fallback = "false",
                             .help = "Whether health checks may run programs on this machine."},
    [FLAG_SCRIPTS_ALLOW] = {.name = "script-checks-allow",
                            .kind = DOOR_FLAG_TEXT,
                            .fallback = "",
                            .shown = "none",
                            .help = "Absolute paths of the programs that they may run, with "
                                    "commas."},
    [FLAG_SCRIPTS_USER] = {.name = "script-checks-user",
                           .kind = DOOR_FLAG_TEXT,
                           .fallback = "nobody",
                           .help = "The user that they are run as; never root."},
    [FLAG_ALLOW_NET] = {.name = "checks-allow-net",
                        .kind = DOOR_FLAG_TEXT,
                        .fallback = "",
                        .shown = "any",
                        .help = "Networks that health checks may connect to: "
                                "10.0.0.0/8,fd00::/8."},
    [FLAG_CA_FILE] = {.name = "checks-ca-file",
                      .kind = DOOR_FLAG_TEXT,
                      .fallback = "",
                      .shown = "the system's",
                      .help = "Authorities that health checks over TLS trust."},
};

static struct check_command_options commands_of(const union door_value *values) {
    return (struct check_command_options){
        .is_enabled = values[FLAG_ENABLE_SCRIPTS].is_on,
        .allowed = values[FLAG_SCRIPTS_ALLOW].text,
        .user = values[FLAG_SCRIPTS_USER].text,
    };
}

const char *registry_checks_check(const union door_value *values) {
    struct check_command_options commands = commands_of(values);
    struct check_network_list networks;
    if (check_network_list_parse(values[FLAG_ALLOW_NET].text, &networks) != STATUS_OK) {
        return "--checks-allow-net: not a list of networks such as 10.0.0.0/8,fd00::/8";
    }
    return check_command_options_check(&commands);
}

struct check_runner *registry_checks_open(const struct door_environment *environment) {
    struct check_network_options options = {
        .ca_file = environment->values[FLAG_CA_FILE].text,
        .sockets_max = environment->check_sockets_max,
        .commands = commands_of(environment->values),
    };
    /* It was checked with the other flags. */
    (void)check_network_list_parse(environment->values[FLAG_ALLOW_NET].text, &options.allowed);
    return check_runner_open(environment->loop, environment->service, &options);
}
