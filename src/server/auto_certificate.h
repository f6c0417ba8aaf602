/* The certificates of --auto-tls and --peer-auto-tls: for every name under which this node may be
 * reached, as far as it knows them itself. */
#ifndef LEASED_SERVER_AUTO_CERTIFICATE_H
#define LEASED_SERVER_AUTO_CERTIFICATE_H

#include "base/status.h"
#include "server/url.h"
#include "tls/tls_auto.h"

#include <stddef.h>

/* Finds or makes the pair in fixtures/`name` of the data directory, where etcd has it.
 * STATUS_INVALID or STATUS_IO with a reason in `out_error`. */
enum status auto_certificate_make(const char *data_dir, const char *name,
                                  const struct url_list *advertised,
                                  const struct url_list *listened, struct tls_auto_files *out_files,
                                  char *out_error, size_t error_size);

#endif
