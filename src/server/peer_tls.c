#include "server/peer_tls.h"

#include "server/auto_certificate.h"

enum status peer_tls_prepare(struct peer_tls *tls, const struct options *options,
                             const char *data_dir, char *out_error, size_t error_size) {
    *tls = (struct peer_tls){.options = {.cert_file = options->peer_cert_file,
                                         .key_file = options->peer_key_file,
                                         .ca_file = options->peer_trusted_ca_file,
                                         .trusts_system = *options->peer_trusted_ca_file == '\0',
                                         .crl_file = options->peer_crl_file,
                                         .allowed_cn = options->peer_cert_allowed_cn,
                                         .allowed_hostname = options->peer_cert_allowed_hostname,
                                         .cipher_suites = options->cipher_suites,
                                         .min_version = options->tls_min_version,
                                         .max_version = options->tls_max_version}};
    if (!options->peer_auto_tls) {
        return STATUS_OK;
    }
    enum status status =
        auto_certificate_make(data_dir, "peer", &options->initial_advertise_peer_urls,
                              &options->listen_peer_urls, &tls->files, out_error, error_size);
    if (status == STATUS_OK) {
        tls->options.cert_file = tls->files.cert_file;
        tls->options.key_file = tls->files.key_file;
        tls->options.verify = TLS_VERIFY_NONE;
    }
    return status;
}
