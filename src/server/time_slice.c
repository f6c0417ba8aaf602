#include "server/time_slice.h"

#include <sched.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* struct sched_attr of sched_setattr(2), as Linux 3.14 has it: glibc before 2.41 has none. */
struct attributes {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns; /* of an ordinary policy: the slice; 0: this kernel tells none */
    uint64_t deadline_ns;
    uint64_t period_ns;
};

void time_slice_shorten(void) {
    struct attributes attributes = {.size = sizeof attributes};
    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) {
        return;
    }
    bool is_ordinary = attributes.policy == SCHED_OTHER || attributes.policy == SCHED_BATCH;
    if (!is_ordinary || attributes.runtime_ns <= TIME_SLICE_NS) {
        return;
    }
    attributes.runtime_ns = TIME_SLICE_NS;
    (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}
