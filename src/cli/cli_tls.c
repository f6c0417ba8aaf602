#include "cli/cli_tls.h"

#include "tls/tls_context.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { VARIABLE_SIZE_MAX = 64, ERROR_SIZE_MAX = 512 };

/* "--cacert" as LEASED_CACERT. NULL: not set, or empty. */
static const char *variable(const char *prefix, const char *option) {
    char name[VARIABLE_SIZE_MAX];
    int size = snprintf(name, sizeof name, "%s%s", prefix, option + 2);
    for (int i = 0; i < size; i++) {
        name[i] = name[i] == '-' ? '_' : (char)toupper((unsigned char)name[i]);
    }
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

static const char *setting(const struct cli *cli, const char *option) {
    const char *value = arguments_global_value(&cli->arguments, option);
    if (value == NULL) {
        value = variable("LEASED_", option);
    }
    if (value == NULL) {
        value = variable("ETCDCTL_", option);
    }
    return value != NULL && *value != '\0' ? value : NULL;
}

static bool is_true(const char *value) {
    return value != NULL && (strcmp(value, "true") == 0 || strcmp(value, "1") == 0);
}

static bool is_false(const char *value) {
    return value != NULL && (strcmp(value, "false") == 0 || strcmp(value, "0") == 0);
}

static bool is_any_tls(const struct cli *cli, bool is_default) {
    for (size_t i = 0; i < cli->endpoints.n_items; i++) {
        enum endpoint_security security = cli->endpoints.items[i].security;
        if (security == ENDPOINT_TLS || (security == ENDPOINT_EITHER && is_default)) {
            return true;
        }
    }
    return false;
}

enum cli_exit cli_tls_prepare(struct cli *cli) {
    char error[ERROR_SIZE_MAX] = "";
    bool is_unverified = is_true(setting(cli, "--insecure-skip-tls-verify"));
    const struct tls_options options = {
        .is_client = true,
        .ca_file = setting(cli, "--cacert"),
        .cert_file = setting(cli, "--cert"),
        .key_file = setting(cli, "--key"),
        .verify = is_unverified ? TLS_VERIFY_NONE : TLS_VERIFY_REQUIRED,
        .alpn = "h2",
    };
    if ((options.cert_file != NULL) != (options.key_file != NULL)) {
        return cli_usage(cli, "--cert and --key belong together: %s is missing before the command",
                         options.cert_file == NULL ? "--cert" : "--key");
    }
    bool is_default = is_unverified || options.ca_file != NULL || options.cert_file != NULL ||
                      is_false(setting(cli, "--insecure-transport"));
    if (!is_any_tls(cli, is_default)) {
        return CLI_OK;
    }
    if (tls_context_create(&options, &cli->endpoints.tls, error, sizeof error) != STATUS_OK) {
        fprintf(stderr, "lease: %s\n", error);
        return CLI_FAILED;
    }
    return CLI_OK;
}
