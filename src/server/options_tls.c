/* TLS for clients: which flags go together, and which listeners need them. */
#include "server/options_tls.h"

#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 2, 3))) static enum status fail(char out_error[OPTIONS_ERROR_SIZE],
                                                              const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out_error, OPTIONS_ERROR_SIZE, format, arguments);
    va_end(arguments);
    return STATUS_INVALID;
}

static bool is_given(const char *text) {
    return *text != '\0';
}

/* What demands something of a client's certificate has no meaning where none is demanded. */
static enum status check_demands(const struct options *options, char *out_error) {
    const struct {
        const char *flag;
        bool is_given;
    } demands[] = {
        {"client-cert-auth", options->client_cert_auth},
        {"client-cert-allowed-cn", is_given(options->client_cert_allowed_cn)},
        {"client-cert-allowed-hostname", is_given(options->client_cert_allowed_hostname)},
        {"client-crl-file", is_given(options->client_crl_file)},
    };
    for (size_t i = 0; i < sizeof demands / sizeof demands[0]; i++) {
        if (demands[i].is_given && !is_given(options->trusted_ca_file)) {
            return fail(out_error,
                        "--%s needs --trusted-ca-file: the authority that signs the clients' "
                        "certificates",
                        demands[i].flag);
        }
    }
    if (is_given(options->client_cert_allowed_cn) &&
        is_given(options->client_cert_allowed_hostname)) {
        return fail(out_error,
                    "--client-cert-allowed-cn and --client-cert-allowed-hostname exclude "
                    "each other: give one of them");
    }
    return STATUS_OK;
}

/* As in etcd a certificate does not keep a listener from speaking plain text; but it was hardly
 * meant. */
static void notice_plain_text(struct options *options) {
    for (size_t i = 0; i < options->listen_client_urls.n; i++) {
        const struct url *url = &options->listen_client_urls.urls[i];
        if (!url_is_tls(url) && !url_is_unix(url)) {
            options_notice(options, LOG_WARNING,
                           "%s is served in plain text and without client certificates, although "
                           "there is a certificate; say https:// in "
                           "--listen-client-urls",
                           options->listen_client_urls.texts[i]);
        }
    }
}

enum status options_check_client_tls(struct options *options, char out_error[OPTIONS_ERROR_SIZE]) {
    bool has_cert = is_given(options->cert_file);
    bool has_key = is_given(options->key_file);
    if (has_cert != has_key) {
        return fail(out_error, "--%s is missing: --cert-file and --key-file go together",
                    has_cert ? "key-file" : "cert-file");
    }
    if (has_cert && options->auto_tls) {
        options_notice(options, LOG_INFO, "--auto-tls has no effect: --cert-file is given");
        options->auto_tls = false;
    }
    options->has_client_tls = has_cert || options->auto_tls;
    if (options->has_client_tls) {
        notice_plain_text(options);
    }
    return check_demands(options, out_error);
}
