#include "server/descriptors.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

uint64_t descriptors_raise_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 0;
    }
    struct rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    return setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

enum status descriptors_plan(uint64_t limit, size_t wanted, bool has_metrics_listener,
                             size_t *out_connections_max, char *out_error, size_t error_size) {
    uint64_t reserve = DESCRIPTORS_RESERVE + (has_metrics_listener ? DESCRIPTORS_METRICS : 0);
    if (limit < reserve + CLIENT_CONNECTIONS_MIN) {
        snprintf(out_error, error_size,
                 "the limit of open files is %" PRIu64 ", and the log, the other members and at "
                 "least %d clients need %" PRIu64 ". Raise the hard limit (ulimit -Hn, LimitNOFILE "
                 "in a systemd unit) and start again",
                 limit, CLIENT_CONNECTIONS_MIN, reserve + CLIENT_CONNECTIONS_MIN);
        return STATUS_INVALID;
    }
    uint64_t room = limit - reserve - (descriptors_checks(limit) - DESCRIPTORS_CHECKS_MIN);
    *out_connections_max = wanted < room ? wanted : (size_t)room;
    return STATUS_OK;
}

size_t descriptors_checks(uint64_t limit) {
    size_t share = DESCRIPTORS_CHECKS_MIN;
    uint64_t room = limit > DESCRIPTORS_RESERVE ? limit - DESCRIPTORS_RESERVE : 0;
    if (room >= DESCRIPTORS_CHECKS_FROM) {
        uint64_t more = room / DESCRIPTORS_CHECKS_SHARE;
        share += more < DESCRIPTORS_CHECKS_MAX ? (size_t)more : DESCRIPTORS_CHECKS_MAX;
    }
    return share;
}

size_t descriptors_client_share(size_t connections_max, size_t wanted) {
    size_t most = connections_max - connections_max / 4;
    size_t share = wanted != 0 ? wanted : most > CLIENT_SHARE_MIN ? most : CLIENT_SHARE_MIN;
    return share < connections_max ? share : connections_max;
}
