#include "server/time_slice.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

struct attributes {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns;
    uint64_t deadline_ns;
    uint64_t period_ns;
};

struct thread {
    int nice;
    int policy;
    struct attributes before;
    struct attributes after;
    struct attributes of_child;
};

static void look(struct attributes *out_attributes) {
    assert_int_equal(syscall(SYS_sched_getattr, 0, out_attributes, sizeof *out_attributes, 0), 0);
}

static void *run_child(void *data) {
    look(data);
    return NULL;
}

static void *run_thread(void *data) {
    struct thread *thread = data;
    pthread_t child;
    const struct sched_param none = {0};
    assert_int_equal(setpriority(PRIO_PROCESS, (id_t)gettid(), thread->nice), 0);
    assert_int_equal(sched_setscheduler(0, thread->policy, &none), 0);
    look(&thread->before);
    time_slice_shorten();
    look(&thread->after);
    assert_int_equal(pthread_create(&child, NULL, run_child, &thread->of_child), 0);
    pthread_join(child, NULL);
    return NULL;
}

static void run(struct thread *thread) {
    pthread_t id;
    assert_int_equal(pthread_create(&id, NULL, run_thread, thread), 0);
    pthread_join(id, NULL);
    assert_int_equal(thread->after.policy, thread->policy);
    assert_int_equal(thread->after.nice, thread->nice);
}

/* Before Linux 6.12 nothing is told, and nothing changes. */
static void the_slice_becomes_short_and_the_share_stays(void **state) {
    struct thread thread = {.nice = 5, .policy = SCHED_OTHER};
    run(&thread);
    uint64_t expected_ns = thread.before.runtime_ns == 0 ? 0 : TIME_SLICE_NS;
    assert_int_equal(thread.after.runtime_ns, expected_ns);
    assert_int_equal(thread.of_child.runtime_ns, expected_ns);
    assert_int_equal(thread.of_child.nice, thread.nice);
}

static void other_policies_are_left_alone(void **state) {
    struct thread thread = {.nice = 0, .policy = SCHED_IDLE};
    run(&thread);
    assert_int_equal(thread.after.runtime_ns, thread.before.runtime_ns);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slice_becomes_short_and_the_share_stays),
        cmocka_unit_test(other_policies_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
