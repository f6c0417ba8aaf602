/*
 * /metrics of one endpoint, over HTTP/1.1, and single values of it. Every wait has a limit, and so
 * has the page.
 */
#ifndef LEASED_CLI_METRICS_PAGE_H
#define LEASED_CLI_METRICS_PAGE_H

#include "base/status.h"
#include "cli/cli.h"

/* The page as a text, to be freed, asked for as the user of --user. STATUS_UNSUPPORTED: the
 * endpoint is a Unix socket that speaks TLS. STATUS_IO: it cannot be reached. STATUS_MALFORMED: it
 * answered something else, or refused. */
enum status metrics_page_fetch(struct cli *cli, const struct endpoint *endpoint, char **out_page);

/* The value of a metric without labels, or `fallback`. */
double metrics_page_value(const char *page, const char *name, double fallback);
/* The smallest bound of a histogram at or below which a share of its observations is; -1: there are
 * none. */
double metrics_page_quantile(const char *page, const char *name, double share);

#endif
