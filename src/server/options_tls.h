/* The part of options_check() that concerns TLS for clients. */
#ifndef LEASED_SERVER_OPTIONS_TLS_H
#define LEASED_SERVER_OPTIONS_TLS_H

#include "server/options.h"

/* Sets has_client_tls. STATUS_INVALID with the reason in `out_error`. */
enum status options_check_client_tls(struct options *options, char out_error[OPTIONS_ERROR_SIZE]);

#endif
