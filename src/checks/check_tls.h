/*
 * The TLS settings of checks: certificates verified or not, HTTP/1.1 or HTTP/2. They are made by a
 * worker when a check first needs them, because reading the system's authorities takes as long as
 * thousands of renewals.
 */
#ifndef LEASED_CHECKS_CHECK_TLS_H
#define LEASED_CHECKS_CHECK_TLS_H

#include "tls/tls_context.h"

#include <stdbool.h>
#include <uv.h>

struct check_tls_kind {
    bool skips_verification;
    bool is_http2;
};

struct check_tls;

/* `ca_file`: whom to trust; "": the system's authorities. It outlives this. Aborts when memory is
 * out. */
struct check_tls *check_tls_create(uv_loop_t *loop, const char *ca_file);
/* No stream is open any more; the memory goes when the workers have ended. */
void check_tls_destroy(struct check_tls *tls);

/* True: check_tls_context() may be asked. False: it is being made; ask again later. */
bool check_tls_prepare(struct check_tls *tls, struct check_tls_kind kind);
/* NULL: it cannot be had, and `out_error` says why; it lives as long as this. */
struct tls_context *check_tls_context(struct check_tls *tls, struct check_tls_kind kind,
                                      const char **out_error);

#endif
