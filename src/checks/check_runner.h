/*
 * Runs the health checks of the registry: those that are this member's share. It follows the
 * registry's records, starts checks when they are due, cancels them when their time is over, and
 * reports changes of health through the log. Everything happens on the loop's thread, in small
 * portions, so that no renewal waits for it.
 */
#ifndef LEASED_CHECKS_CHECK_RUNNER_H
#define LEASED_CHECKS_CHECK_RUNNER_H

#include "base/buffer.h"
#include "checks/check_network.h"
#include "core/service.h"

struct check_runner;

/* How long a member that has died keeps its share. */
#define CHECK_RUNNER_TTL_MS INT64_C(3000)

/* The service answers later than this; the runner begins when it does. The texts of the options
 * outlive it. Aborts when memory is out. */
struct check_runner *check_runner_open(uv_loop_t *loop, struct service *service,
                                       const struct check_network_options *options);
/* The service is about to be closed: nothing is begun any more. */
void check_runner_halt(struct check_runner *runner);
/* The service is closed and has answered every request. */
void check_runner_close(struct check_runner *runner);

/* Metrics in Prometheus' format; their names begin with leased_checks_. */
void check_runner_write_metrics(const struct check_runner *runner, struct buffer *out);

#endif
