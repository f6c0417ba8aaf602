/*
 * Every lease of the etcd API with its granted and remaining time and how many keys it holds. The
 * protocol lists ids alone, so each lease is asked for, a bounded number at a time.
 */
#ifndef LEASED_CLI_ETCD_LEASES_H
#define LEASED_CLI_ETCD_LEASES_H

#include "cli/cli.h"

struct etcd_leases;

/* The one that ends next comes first. Anything but CLI_OK was said on standard error. */
enum cli_exit etcd_leases_fetch(struct cli *cli, struct etcd_leases **out_leases);
/* Accepts NULL. */
void etcd_leases_destroy(struct etcd_leases *leases);

size_t etcd_leases_count(const struct etcd_leases *leases);
/* An array, without the end of the line. */
void etcd_leases_print_json(const struct etcd_leases *leases);
void etcd_leases_print_table(const struct etcd_leases *leases);

#endif
