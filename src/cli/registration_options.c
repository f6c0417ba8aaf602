#include "cli/registration_options.h"

#include "base/host_port.h"

#include <string.h>

enum {
    TTL_MS_MIN = 1000,
    DRAIN_MS = 3000,
    INTERVAL_MS = 5000,
    INTERVAL_MS_MIN = 100,
    TIMEOUT_MS = 2000,
    FALLS = 2,
    COUNT_MAX = 100,
    WEIGHT_MAX = 65535
};

static bool begins_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/* ---- where it is ------------------------------------------------------------------------------
 */

static enum cli_exit take_address(struct cli *cli, struct registration_options *out) {
    const char *text = arguments_value(&cli->arguments, "--addr");
    const char *reason = NULL;
    struct host_port address;
    if (text == NULL) {
        return cli_usage(cli, "missing --addr HOST:PORT, where clients reach the instance");
    }
    if (host_port_parse(bytes_from_text(text), 0, &address, &reason) != STATUS_OK) {
        return cli_usage(cli, "--addr %s: %s", text, reason);
    }
    snprintf(out->host, sizeof out->host, "%s", address.host);
    out->options.address = out->host;
    out->options.port = address.port;
    const char *id = arguments_value(&cli->arguments, "--id");
    snprintf(out->id, sizeof out->id, "%s", id != NULL ? id : text);
    out->options.id = out->id;
    return CLI_OK;
}

/* ---- tags and metadata ------------------------------------------------------------------------
 */

static enum cli_exit take_meta(struct cli *cli, const char *text,
                               struct registration_options *out) {
    const char *equals = strchr(text, '=');
    size_t size = equals == NULL ? 0 : (size_t)(equals - text);
    if (size == 0 || size >= REGISTRATION_TEXT_MAX) {
        return cli_usage(cli, "--meta %s has no =; give KEY=VALUE", text);
    }
    size_t n = out->options.n_metadata++;
    memcpy(out->keys[n], text, size);
    out->keys[n][size] = '\0';
    out->metadata[n] = (struct lease_pair){out->keys[n], equals + 1};
    return CLI_OK;
}

/* ---- checks -----------------------------------------------------------------------------------
 */

/* "HOST:PORT" or "HOST:PORT/SERVICE" of gRPC. */
static void take_grpc(const char *text, char target[REGISTRATION_TEXT_MAX],
                      struct lease_check *check) {
    snprintf(target, REGISTRATION_TEXT_MAX, "%s", text);
    char *slash = strchr(target, '/');
    if (slash != NULL) {
        *slash = '\0';
        check->method = slash + 1;
    }
    check->kind = LEASE_CHECK_GRPC;
    check->target = target;
}

static enum cli_exit take_check(struct cli *cli, const char *text,
                                struct registration_options *out) {
    size_t n = out->options.n_checks++;
    struct lease_check *check = &out->checks[n];
    snprintf(out->check_ids[n], sizeof out->check_ids[n], "check-%zu", n + 1);
    *check = (struct lease_check){.id = out->check_ids[n], .health = LEASE_CRITICAL};
    if (strlen(text) >= REGISTRATION_TEXT_MAX) {
        return cli_usage(cli, "--check: at most %d bytes", REGISTRATION_TEXT_MAX - 1);
    }
    if (begins_with(text, "http://") || begins_with(text, "https://")) {
        check->kind = LEASE_CHECK_HTTP;
        check->target = text;
    } else if (begins_with(text, "tcp://")) {
        check->kind = LEASE_CHECK_TCP;
        check->target = text + strlen("tcp://");
    } else if (begins_with(text, "grpc://")) {
        take_grpc(text + strlen("grpc://"), out->targets[n], check);
    } else if (begins_with(text, "grpcs://")) {
        take_grpc(text + strlen("grpcs://"), out->targets[n], check);
        check->tls = true;
    } else {
        return cli_usage(cli,
                         "--check %s: the scheme is unknown; give http://, https://, tcp://, "
                         "grpc:// or grpcs://",
                         text);
    }
    check->skip_verification = arguments_has(&cli->arguments, "--insecure-checks");
    return CLI_OK;
}

static enum cli_exit take_check_times(struct cli *cli, struct registration_options *out) {
    int64_t interval_ms = 0;
    int64_t timeout_ms = 0;
    int64_t rises = 0;
    int64_t falls = 0;
    const struct arguments_range counts = {.min = 1, .max = COUNT_MAX};
    if (!cli_time_option(cli, "--check-interval", INTERVAL_MS, INTERVAL_MS_MIN, &interval_ms) ||
        !cli_time_option(cli, "--check-timeout", TIMEOUT_MS, 1, &timeout_ms)) {
        return CLI_USAGE;
    }
    if (!arguments_number(&cli->arguments, "--rises", 1, counts, &rises) ||
        !arguments_number(&cli->arguments, "--falls", FALLS, counts, &falls)) {
        return cli_usage(cli, "%s", cli->arguments.error);
    }
    for (size_t i = 0; i < out->options.n_checks; i++) {
        out->checks[i].interval_ms = interval_ms;
        out->checks[i].timeout_ms = timeout_ms;
        out->checks[i].rises = (uint32_t)rises;
        out->checks[i].falls = (uint32_t)falls;
    }
    return CLI_OK;
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static enum cli_exit take_lists(struct cli *cli, struct registration_options *out) {
    for (size_t i = 0; i < cli->arguments.n_given; i++) {
        const char *name = cli->arguments.given[i].option->name;
        const char *value = cli->arguments.given[i].value;
        enum cli_exit result = CLI_OK;
        if (strcmp(name, "--tag") == 0 && out->options.n_tags < REGISTRATION_ITEMS_MAX) {
            out->tags[out->options.n_tags++] = value;
        } else if (strcmp(name, "--meta") == 0 &&
                   out->options.n_metadata < REGISTRATION_ITEMS_MAX) {
            result = take_meta(cli, value, out);
        } else if (strcmp(name, "--check") == 0) {
            result = out->options.n_checks < REGISTRATION_CHECKS_MAX
                         ? take_check(cli, value, out)
                         : cli_usage(cli, "--check: at most %d", REGISTRATION_CHECKS_MAX);
        }
        if (result != CLI_OK) {
            return result;
        }
    }
    out->options.tags = out->tags;
    out->options.metadata = out->metadata;
    out->options.checks = out->checks;
    return take_check_times(cli, out);
}

enum cli_exit registration_options_take(struct cli *cli, struct registration_options *out) {
    int64_t weight = 1;
    *out = (struct registration_options){.options = LEASE_REGISTER_OPTIONS_INIT};
    out->options.service = cli->arguments.words[1];
    out->options.zone = arguments_value(&cli->arguments, "--zone");
    out->options.version = arguments_value(&cli->arguments, "--release");
    out->options.node = arguments_value(&cli->arguments, "--node");
    enum cli_exit result = take_address(cli, out);
    if (result == CLI_OK) {
        result = take_lists(cli, out);
    }
    if (result != CLI_OK) {
        return result;
    }
    if (!arguments_number(&cli->arguments, "--weight", 1,
                          (struct arguments_range){.min = 0, .max = WEIGHT_MAX}, &weight)) {
        return cli_usage(cli, "%s", cli->arguments.error);
    }
    out->options.weight = weight == 0 ? -1 : (int32_t)weight;
    bool is_well = cli_time_option(cli, "--ttl", 0, TTL_MS_MIN, &out->options.ttl_ms) &&
                   cli_time_option(cli, "--drain", DRAIN_MS, 0, &out->drain_ms);
    return is_well ? CLI_OK : CLI_USAGE;
}
