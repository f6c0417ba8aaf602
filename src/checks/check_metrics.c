#include "base/prometheus.h"
#include "checks/check_runner_internal.h"

static const char *const kinds[REGISTRY_CHECK_KINDS] = {
    [REGISTRY_CHECK_HTTP] = "http",   [REGISTRY_CHECK_TCP] = "tcp",
    [REGISTRY_CHECK_GRPC] = "grpc",   [REGISTRY_CHECK_COMMAND] = "command",
    [REGISTRY_CHECK_ALIAS] = "alias",
};
static const char *const healths[REGISTRY_HEALTHS] = {"passing", "warning", "critical"};

static void write_results(const struct check_runner *runner, struct buffer *out) {
    static const char name[] = "leased_checks_results_total";
    prometheus_family(out, name, PROMETHEUS_COUNTER,
                      "Results of health checks that this member ran.");
    for (size_t kind = 0; kind < REGISTRY_CHECK_KINDS; kind++) {
        for (size_t health = 0; kinds[kind] != NULL && health < REGISTRY_HEALTHS; health++) {
            const struct prometheus_label labels[] = {{"kind", kinds[kind]},
                                                      {"health", healths[health]}};
            prometheus_sample_u64(out, name, "", labels, 2, runner->stats.results[kind][health]);
        }
    }
}

static size_t count(const struct list *queue) {
    size_t n = 0;
    for (const struct list *link = queue->next; link != queue; link = link->next) {
        n++;
    }
    return n;
}

void check_runner_write_metrics(const struct check_runner *runner, struct buffer *out) {
    prometheus_gauge(out, "leased_checks_own", "Health checks that are this member's share.",
                     runner->jobs.n_jobs);
    prometheus_gauge(out, "leased_checks_members", "Members that run health checks.",
                     runner->shares.n);
    prometheus_gauge(out, "leased_checks_running", "Health checks that wait for their answer.",
                     runner->n_running);
    prometheus_gauge(out, "leased_checks_waiting", "Health checks that are due and wait for room.",
                     count(&runner->ready) + count(&runner->ready_critical) +
                         count(&runner->ready_commands));
    prometheus_gauge(out, "leased_checks_sockets", "Connections of health checks.",
                     runner->network->n_sockets);
    prometheus_gauge(out, "leased_checks_sockets_max", "Connections that they may have.",
                     runner->network->sockets_max);
    write_results(runner, out);
    prometheus_counter(out, "leased_checks_timeouts_total", "Checks that had no answer in time.",
                       runner->stats.timeouts);
    prometheus_counter(out, "leased_checks_changes_total", "Changes of health that were seen.",
                       runner->stats.changes);
    prometheus_counter(out, "leased_checks_reports_total", "Reports that went through the log.",
                       runner->stats.reports);
    prometheus_counter(out, "leased_checks_reports_failed_total",
                       "Reports that could not be committed, and were sent again.",
                       runner->stats.reports_failed);
    prometheus_counter(out, "leased_checks_shares_total", "How often the shares were computed.",
                       runner->stats.scans);
    prometheus_counter(out, "leased_checks_started_total", "Runs that were started.",
                       runner->stats.started);
    prometheus_counter(out, "leased_checks_late_milliseconds_total",
                       "How late they were started, together.", runner->stats.late_ms_sum);
    prometheus_gauge(out, "leased_checks_late_milliseconds_max", "How late the latest was started.",
                     runner->stats.late_ms_max);
}
