/*
 * One run of a check, whatever its kind. Each kind is a constant table of functions in a file of
 * its own. A probe has no time-out: whoever started it cancels it.
 */
#ifndef LEASED_CHECKS_CHECK_PROBE_H
#define LEASED_CHECKS_CHECK_PROBE_H

#include "checks/check_network.h"
#include "checks/check_result.h"
#include "registry/registry_model.h"

struct check_probe;

struct check_probe_owner {
    /* Once, never from inside a function of this header; the probe is gone then. The result is
     * borrowed for the call. */
    void (*done)(void *context, const struct check_result *result);
    void *context;
};

struct check_probe_kind {
    /* NULL: it could not even be started, and `out_result` says why. The check is borrowed for the
     * call. */
    struct check_probe *(*start)(struct check_network *network, const struct registry_check *check,
                                 const struct check_probe_owner *owner,
                                 struct check_result *out_result);
    void (*cancel)(struct check_probe *probe);
};

/* The first member of what each kind has. */
struct check_probe {
    const struct check_probe_kind *kind;
    struct check_probe_owner owner;
};

extern const struct check_probe_kind check_probe_http;
extern const struct check_probe_kind check_probe_tcp;
extern const struct check_probe_kind check_probe_grpc;
extern const struct check_probe_kind check_probe_command;

/* NULL: nothing is run for checks of this kind. */
const struct check_probe_kind *check_probe_kind_of(enum registry_check_kind kind);

static inline void check_probe_cancel(struct check_probe *probe) {
    probe->kind->cancel(probe);
}

#endif
