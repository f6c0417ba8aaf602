#include "cli/cli_tls.h"

#include "tls/tls_context.h"

#include <string.h>

enum { ERROR_SIZE_MAX = 512 };

static const char *setting(const struct cli *cli, const char *option) {
    return cli_setting(&cli->settings, &cli->arguments, option);
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
    bool is_unverified =
        cli_setting_is_true(&cli->settings, &cli->arguments, "--insecure-skip-tls-verify");
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
