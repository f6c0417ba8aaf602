#include "base/list.h"
#include "net/net_timers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MANY = 1000 };

struct owner {
    struct net_timer timer;
    struct net_timers *timers;
    struct owner *disarms; /* when it fires */
    struct owner *arms;    /* for 1,000 ms later */
    unsigned n_fired;
};

static void fire(struct net_timer *timer) {
    struct owner *owner = list_entry(timer, struct owner, timer);
    assert_false(net_timer_is_armed(timer));
    owner->n_fired++;
    if (owner->disarms != NULL) {
        net_timers_disarm(owner->timers, &owner->disarms->timer);
    }
    if (owner->arms != NULL) {
        net_timers_arm(owner->timers, &owner->arms->timer, net_timers_now_ms(owner->timers) + 1000);
    }
}

static void owner_init(struct owner *owner, struct net_timers *timers) {
    *owner = (struct owner){.timers = timers};
    net_timer_init(&owner->timer, fire);
}

static void timers_fire_once_and_not_before_their_time(void **state) {
    struct net_timers *timers = net_timers_create(100);
    static struct owner owners[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        owner_init(&owners[i], timers);
        net_timers_arm(timers, &owners[i].timer, 101 + i);
    }
    for (unsigned now = 101; now < 101 + MANY; now++) {
        net_timers_run(timers, now);
        assert_int_equal(owners[now - 101].n_fired, 1);
        if (now - 100 < MANY) {
            assert_int_equal(owners[now - 100].n_fired, 0);
        }
    }
    assert_true(net_timers_next_ms(timers) == UINT64_MAX);
    net_timers_destroy(timers);
}

static void callback_may_disarm_another_due_timer(void **state) {
    struct net_timers *timers = net_timers_create(0);
    struct owner owners[2];
    owner_init(&owners[0], timers);
    owner_init(&owners[1], timers);
    owners[0].disarms = &owners[1];
    owners[1].disarms = &owners[0];
    net_timers_arm(timers, &owners[0].timer, 10);
    net_timers_arm(timers, &owners[1].timer, 10);
    net_timers_run(timers, 10);
    assert_int_equal(owners[0].n_fired + owners[1].n_fired, 1);
    net_timers_destroy(timers);
}

/* The first to fire frees the other's slot and a third timer takes it: that one must wait. */
static void slot_used_again_in_the_same_batch_does_not_fire_early(void **state) {
    struct net_timers *timers = net_timers_create(0);
    struct owner owners[3];
    for (size_t i = 0; i < 3; i++) {
        owner_init(&owners[i], timers);
    }
    owners[0].disarms = &owners[1];
    owners[1].disarms = &owners[0];
    owners[0].arms = &owners[2];
    owners[1].arms = &owners[2];
    net_timers_arm(timers, &owners[0].timer, 10);
    net_timers_arm(timers, &owners[1].timer, 10);
    net_timers_run(timers, 10);
    assert_int_equal(owners[2].n_fired, 0);
    net_timers_run(timers, 1009);
    assert_int_equal(owners[2].n_fired, 0);
    net_timers_run(timers, 1010);
    assert_int_equal(owners[2].n_fired, 1);
    net_timers_destroy(timers);
}

static void moved_timer_fires_at_its_new_time(void **state) {
    struct net_timers *timers = net_timers_create(0);
    struct owner owner;
    owner_init(&owner, timers);
    net_timers_arm(timers, &owner.timer, 10);
    net_timers_arm(timers, &owner.timer, 5000);
    net_timers_run(timers, 4999);
    assert_int_equal(owner.n_fired, 0);
    net_timers_run(timers, 5000);
    assert_int_equal(owner.n_fired, 1);
    net_timers_disarm(timers, &owner.timer);
    net_timers_destroy(timers);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_fire_once_and_not_before_their_time),
        cmocka_unit_test(callback_may_disarm_another_due_timer),
        cmocka_unit_test(slot_used_again_in_the_same_batch_does_not_fire_early),
        cmocka_unit_test(moved_timer_fires_at_its_new_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
