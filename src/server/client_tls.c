#include "server/client_tls.h"

#include "base/log.h"
#include "server/auto_certificate.h"

#include <stdio.h>
#include <string.h>

static enum status make_certificate(struct client_tls *tls, const struct options *options,
                                    const char *data_dir, char *out_error, size_t error_size) {
    enum status status =
        auto_certificate_make(data_dir, "client", &options->advertise_client_urls,
                              &options->listen_client_urls, &tls->files, out_error, error_size);
    if (status == STATUS_OK) {
        tls->options.cert_file = tls->files.cert_file;
        tls->options.key_file = tls->files.key_file;
        log_info("--auto-tls: clients that shall verify this server need its certificate",
                 LOG_TEXT("path", tls->files.cert_file));
    }
    return status;
}

bool client_tls_is_verified(const struct options *options) {
    return options->has_client_tls && *options->trusted_ca_file != '\0';
}

enum status client_tls_open(struct client_tls *tls, const struct options *options,
                            const char *data_dir, char *out_error, size_t error_size) {
    memset(tls, 0, sizeof *tls);
    if (!options->has_client_tls) {
        return STATUS_OK;
    }
    tls->options = (struct tls_options){
        .cert_file = options->cert_file,
        .key_file = options->key_file,
        .ca_file = options->trusted_ca_file,
        .crl_file = options->client_crl_file,
        .allowed_cn = options->client_cert_allowed_cn,
        .allowed_hostname = options->client_cert_allowed_hostname,
        /* As etcd has it, an authority alone demands certificates. */
        .verify = client_tls_is_verified(options) ? TLS_VERIFY_REQUIRED : TLS_VERIFY_SERVER,
        .alpn = "h2,http/1.1",
        .cipher_suites = options->cipher_suites,
        .min_version = options->tls_min_version,
        .max_version = options->tls_max_version,
        .session_tickets = true};
    enum status status = STATUS_OK;
    if (options->auto_tls) {
        status = make_certificate(tls, options, data_dir, out_error, error_size);
    }
    if (status == STATUS_OK) {
        status = tls_context_create(&tls->options, &tls->context, out_error, error_size);
    }
    return status;
}

void client_tls_flags(const struct client_tls *tls, char *out_flags, size_t size) {
    bool is_own = tls->files.cert_file[0] != '\0';
    bool is_verified = tls->options.verify == TLS_VERIFY_REQUIRED;
    snprintf(out_flags, size, " --cacert=%s%s", is_own ? tls->files.cert_file : "ca.crt",
             is_verified ? " --cert=client.crt --key=client.key" : "");
}

void client_tls_clear(struct client_tls *tls) {
    tls_context_destroy(tls->context);
    tls->context = NULL;
}
