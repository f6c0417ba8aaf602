#include "core/lease_table.h"

#include "core/lease_table_internal.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void grant(struct lease_table *table, int64_t id, int64_t ttl_ms, uint64_t now_ms) {
    struct lease_facts facts = {.owner = KEY_SPACE_ETCD, .id = id, .ttl_ms = ttl_ms};
    assert_int_equal(lease_table_grant(table, &facts, now_ms), STATUS_OK);
}

static void grant_child(struct lease_table *table, int64_t id, int64_t parent_id) {
    struct lease_facts facts = {
        .owner = KEY_SPACE_ETCD, .id = id, .ttl_ms = 1000, .parent_id = parent_id};
    assert_int_equal(lease_table_grant(table, &facts, 0), STATUS_OK);
}

static void end(struct lease_table *table, int64_t id) {
    assert_int_equal(lease_table_end(table, id, LEASE_END_REVOKED, 0), STATUS_OK);
}

static void a_granted_lease_is_found_with_its_facts(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    struct lease_facts parent = {
        .owner = KEY_SPACE_ETCD, .id = INT64_MIN, .ttl_ms = LEASE_TTL_MS_MAX};
    struct lease_facts facts = {.owner = KEY_SPACE_ETCD,
                                .id = -7,
                                .ttl_ms = 1234,
                                .parent_id = INT64_MIN,
                                .checkpoint_ms = 99,
                                .class = 3};
    facts.owner = KEY_SPACE_SAMPLE;
    assert_int_equal(lease_table_grant(table, &parent, 0), STATUS_OK);
    assert_int_equal(lease_table_grant(table, &facts, 0), STATUS_OK);
    struct lease_facts found;
    assert_true(lease_table_find(table, -7, &found));
    assert_int_equal(found.id, -7);
    assert_int_equal(found.ttl_ms, 1234);
    assert_int_equal(found.parent_id, INT64_MIN);
    assert_int_equal(found.checkpoint_ms, 99);
    assert_int_equal(found.class, 3);
    assert_int_equal(found.owner.value, KEY_SPACE_SAMPLE.value);
    assert_false(lease_table_find(table, 7, &found));
    assert_int_equal(lease_table_count(table), 2);
    lease_table_validate(table);
    lease_table_destroy(table);
}

static void a_grant_that_cannot_be_is_refused_and_changes_nothing(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    grant(table, 1, 1000, 0);
    struct {
        struct lease_facts facts;
        enum status status;
    } cases[] = {
        {{.owner = KEY_SPACE_ETCD, .id = 0, .ttl_ms = 1}, STATUS_INVALID},
        {{.id = 2, .ttl_ms = 1}, STATUS_INVALID},
        {{.owner = KEY_SPACE_ETCD, .id = 2, .ttl_ms = 0}, STATUS_INVALID},
        {{.owner = KEY_SPACE_ETCD, .id = 2, .ttl_ms = -1}, STATUS_INVALID},
        {{.owner = KEY_SPACE_ETCD, .id = 2, .ttl_ms = 1, .checkpoint_ms = -1}, STATUS_INVALID},
        {{.owner = KEY_SPACE_ETCD, .id = 2, .ttl_ms = LEASE_TTL_MS_MAX + 1},
         STATUS_LEASE_TTL_TOO_LARGE},
        {{.owner = KEY_SPACE_ETCD, .id = 2, .ttl_ms = LEASE_TTL_FOREVER - 1},
         STATUS_LEASE_TTL_TOO_LARGE},
        {{.owner = KEY_SPACE_ETCD, .id = 1, .ttl_ms = 1}, STATUS_LEASE_EXISTS},
        {{.owner = KEY_SPACE_ETCD, .id = 2, .ttl_ms = 1, .parent_id = 3}, STATUS_LEASE_NOT_FOUND},
        {{.owner = KEY_SPACE_ETCD, .id = 2, .ttl_ms = 1, .parent_id = 2}, STATUS_LEASE_NOT_FOUND},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(lease_table_grant(table, &cases[i].facts, 0), cases[i].status);
        assert_int_equal(lease_table_count(table), 1);
        lease_table_validate(table);
    }
    lease_table_destroy(table);
}

static void an_ended_lease_is_gone_and_its_id_is_free(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    grant(table, 5, 1000, 0);
    assert_int_equal(lease_table_end(table, 5, LEASE_END_EXPIRED, 17), STATUS_OK);
    assert_int_equal(lease_table_end(table, 5, LEASE_END_EXPIRED, 17), STATUS_LEASE_NOT_FOUND);
    assert_int_equal(lease_table_count(table), 0);
    lease_table_validate(table);
    grant(table, 5, 2000, 0);
    lease_table_validate(table);
    lease_table_destroy(table);
}

static void the_last_ended_leases_are_remembered_newest_first(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    enum { ENDS = LEASE_ENDED_MAX + 10 };
    for (int64_t id = 1; id <= ENDS; id++) {
        grant(table, id, id * 10, 0);
        lease_table_end(table, id, id % 2 ? LEASE_END_REVOKED : LEASE_END_EXPIRED, id * 100);
    }
    static struct lease_ended ended[ENDS];
    assert_int_equal(lease_table_ended(table, ended, ENDS), LEASE_ENDED_MAX);
    for (int64_t i = 0; i < LEASE_ENDED_MAX; i++) {
        assert_int_equal(ended[i].id, ENDS - i);
        assert_int_equal(ended[i].ttl_ms, (ENDS - i) * 10);
        assert_int_equal(ended[i].wall_ms, (ENDS - i) * 100);
        assert_int_equal(ended[i].reason, (ENDS - i) % 2 ? LEASE_END_REVOKED : LEASE_END_EXPIRED);
    }
    assert_int_equal(lease_table_ended(table, ended, 3), 3);
    lease_table_destroy(table);
}

static void ids_come_in_ascending_order(void **state) {
    static const int64_t ids[] = {5, -3, INT64_MAX, INT64_MIN, 1, -1, 1000};
    static const int64_t sorted[] = {INT64_MIN, -3, -1, 1, 5, 1000, INT64_MAX};
    struct lease_table *table = lease_table_create(NULL);
    size_t n;
    int64_t *none = lease_table_ids(table, &n);
    assert_int_equal(n, 0);
    free(none);
    for (size_t i = 0; i < 7; i++) {
        grant(table, ids[i], 1, 0);
    }
    int64_t *got = lease_table_ids(table, &n);
    assert_int_equal(n, 7);
    assert_memory_equal(got, sorted, sizeof sorted);
    free(got);
    lease_table_destroy(table);
}

/* --- Keys. --- */

static void records_attach_and_detach_in_any_order(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    struct record records[4] = {{.lease_id = 9}, {.lease_id = 9}, {.lease_id = 9}, {0}};
    struct record stray = {.lease_id = 10};
    grant(table, 9, 1000, 0);
    assert_int_equal(lease_table_attach(table, &stray), STATUS_LEASE_NOT_FOUND);
    lease_table_detach(table, &stray);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(lease_table_attach(table, &records[i]), STATUS_OK);
    }
    lease_table_validate(table);
    assert_int_equal(lease_table_key_count(table, 9), 3);
    static const unsigned order[] = {1, 2, 0};
    for (size_t i = 0; i < 3; i++) {
        lease_table_detach(table, &records[order[i]]);
        lease_table_validate(table);
        assert_int_equal(lease_table_key_count(table, 9), 2 - i);
        lease_table_detach(table, &records[order[i]]); /* a second time is harmless */
        assert_int_equal(lease_table_key_count(table, 9), 2 - i);
    }
    lease_table_detach(table, &records[3]);
    assert_null(lease_table_first_key(table, 9));
    assert_null(lease_table_first_key(table, 77));
    assert_int_equal(lease_table_key_count(table, 77), 0);
    lease_table_destroy(table);
}

/* --- Families. --- */

static void the_first_child_is_the_one_with_the_smallest_id(void **state) {
    static const int64_t orders[][5] = {{1, 2, 3, 4, 5}, {5, 4, 3, 2, 1}, {3, 5, 1, 2, 4}};
    for (size_t i = 0; i < 3; i++) {
        struct lease_table *table = lease_table_create(NULL);
        grant(table, 100, 1000, 0);
        for (size_t j = 0; j < 5; j++) {
            grant_child(table, orders[i][j], 100);
            lease_table_validate(table);
        }
        end(table, 3); /* a child may go before the others */
        lease_table_validate(table);
        static const int64_t left[] = {1, 2, 4, 5};
        for (size_t j = 0; j < 4; j++) {
            assert_int_equal(lease_table_first_child(table, 100), left[j]);
            end(table, left[j]);
            lease_table_validate(table);
        }
        assert_int_equal(lease_table_first_child(table, 100), 0);
        end(table, 100);
        assert_int_equal(lease_table_first_child(table, 100), 0);
        lease_table_destroy(table);
    }
}

static void a_large_family_ends_in_order(void **state) {
    enum { CHILDREN = 100000 };
    struct lease_table *table = lease_table_create(NULL);
    grant(table, INT64_MAX, 1000, 0);
    uint64_t id = 1;
    for (unsigned i = 0; i < CHILDREN; i++) {
        id = id * 48271 % 2147483647; /* a permutation without repeats this early */
        grant_child(table, (int64_t)id, INT64_MAX);
    }
    int64_t last = 0;
    for (unsigned i = 0; i < CHILDREN; i++) {
        int64_t child = lease_table_first_child(table, INT64_MAX);
        assert_true(child > last);
        last = child;
        end(table, child);
    }
    assert_int_equal(lease_table_count(table), 1);
    lease_table_validate(table);
    lease_table_destroy(table);
}

/* --- Deadlines. --- */

static size_t take(struct lease_table *table, uint64_t now_ms, int64_t *out_ids) {
    size_t n = lease_table_claim_expired(table, now_ms, out_ids, 16);
    lease_table_validate(table);
    return n;
}

static void a_lease_expires_after_its_ttl_and_not_before(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    int64_t ids[16];
    lease_table_lead(table, 1000);
    grant(table, 1, 500, 1000);
    assert_true(lease_table_next_ms(table) <= 1501);
    assert_int_equal(lease_table_due_ms(table, 1), 1501);
    /* Granted at 1000.9, it lives until 1500.9, when now_ms is still 1500. */
    assert_int_equal(take(table, 1500, ids), 0);
    assert_int_equal(take(table, 1501, ids), 1);
    assert_int_equal(ids[0], 1);
    assert_int_equal(lease_table_due_ms(table, 1), 1501);
    assert_int_equal(take(table, 999999, ids), 0);
    assert_int_equal(lease_table_count(table), 1); /* it ends through the log only */
    lease_table_destroy(table);
}

static void nothing_expires_while_following(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    int64_t ids[16];
    grant(table, 1, 10, 0);
    assert_false(lease_table_is_leading(table));
    assert_int_equal(take(table, 100000, ids), 0);
    assert_true(lease_table_next_ms(table) == UINT64_MAX);
    int64_t value = -1;
    bool checkpointed = false;
    assert_int_equal(lease_table_renew(table, 1, 5, &value, &checkpointed), STATUS_NO_LEADER);
    assert_int_equal(lease_table_remaining(table, 1, 5, &value), STATUS_NO_LEADER);
    assert_int_equal(lease_table_due_ms(table, 1), 0);
    assert_int_equal(value, -1);
    lease_table_lead(table, 100000);
    assert_true(lease_table_is_leading(table));
    assert_int_equal(take(table, 100010, ids), 0);
    lease_table_follow(table);
    lease_table_validate(table);
    assert_int_equal(take(table, 200000, ids), 0);
    lease_table_lead(table, 300000);
    assert_int_equal(take(table, 300011, ids), 1);
    lease_table_destroy(table);
}

static void renewing_counts_anew(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    int64_t ids[16];
    int64_t ttl_ms = 0;
    bool checkpointed = true;
    lease_table_lead(table, 0);
    grant(table, 1, 500, 0);
    for (uint64_t now_ms = 0; now_ms < 10000; now_ms += 400) {
        assert_int_equal(take(table, now_ms, ids), 0);
        assert_int_equal(lease_table_renew(table, 1, now_ms, &ttl_ms, &checkpointed), STATUS_OK);
        assert_int_equal(ttl_ms, 500);
        assert_false(checkpointed);
    }
    assert_int_equal(take(table, 9600 + 500, ids), 0);
    assert_int_equal(take(table, 9600 + 501, ids), 1);
    assert_int_equal(lease_table_renew(table, 2, 1, &ttl_ms, &checkpointed),
                     STATUS_LEASE_NOT_FOUND);
    lease_table_destroy(table);
}

static void an_expiring_lease_cannot_be_renewed_until_it_is_untaken(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    int64_t ids[16];
    int64_t ttl_ms = 0;
    bool checkpointed;
    lease_table_lead(table, 0);
    grant(table, 1, 500, 0);
    assert_int_equal(take(table, 501, ids), 1);
    assert_int_equal(lease_table_renew(table, 1, 501, &ttl_ms, &checkpointed), STATUS_PENDING);
    assert_int_equal(lease_table_remaining(table, 1, 501, &ttl_ms), STATUS_OK);
    assert_int_equal(ttl_ms, 0);
    lease_table_unclaim(table, 1);
    lease_table_unclaim(table, 1);
    lease_table_unclaim(table, 2);
    assert_true(lease_table_next_ms(table) <= 501);
    assert_int_equal(take(table, 501, ids), 1);
    lease_table_unclaim(table, 1);
    assert_int_equal(lease_table_renew(table, 1, 600, &ttl_ms, &checkpointed), STATUS_OK);
    assert_int_equal(take(table, 1100, ids), 0);
    assert_int_equal(take(table, 1101, ids), 1);
    end(table, 1);
    lease_table_unclaim(table, 1);
    lease_table_validate(table);
    lease_table_destroy(table);
}

static void a_lease_that_is_put_off_is_in_nobodys_way(void **state) {
    enum { LEASES = 40 };
    struct lease_table *table = lease_table_create(NULL);
    int64_t ids[16];
    int64_t ttl_ms = 0;
    bool checkpointed = true;
    lease_table_lead(table, 0);
    for (int64_t id = 1; id <= LEASES; id++) {
        grant(table, id, 240, 0);
    }
    grant(table, 100, 250, 0);
    for (size_t n; (n = take(table, 241, ids)) > 0;) {
        for (size_t i = 0; i < n; i++) {
            lease_table_put_off(table, ids[i], 252 + (uint64_t)ids[i]); /* past the 256th, too */
        }
        lease_table_validate(table);
    }
    lease_table_put_off(table, 1, 999);    /* nobody has claimed it */
    lease_table_put_off(table, 12345, 10); /* there is none */
    assert_int_equal(take(table, 251, ids), 1);
    assert_int_equal(ids[0], 100);
    /* It is due as it was. */
    assert_int_equal(lease_table_due_ms(table, 1), 241);
    assert_int_equal(lease_table_remaining(table, 1, 251, &ttl_ms), STATUS_OK);
    assert_int_equal(ttl_ms, 0);
    /* Renewed it counts anew, even if that is sooner than it would have been looked at. */
    assert_int_equal(lease_table_renew(table, 40, 251, &ttl_ms, &checkpointed), STATUS_OK);
    assert_int_equal(lease_table_set_ttl(table, 39, 5, 251), STATUS_OK);
    assert_int_equal(lease_table_set_ttl(table, 38, LEASE_TTL_FOREVER, 251), STATUS_OK);
    end(table, 37);
    lease_table_validate(table);
    assert_int_equal(take(table, 252, ids), 0);
    assert_int_equal(take(table, 253, ids), 1);
    assert_int_equal(ids[0], 1);
    assert_int_equal(lease_table_due_ms(table, 1), 241);
    size_t total = 0;
    bool seen[LEASES + 1] = {0};
    for (uint64_t now_ms = 254; now_ms <= 491; now_ms++) {
        for (size_t n; (n = take(table, now_ms, ids)) > 0; total += n) {
            for (size_t i = 0; i < n; i++) {
                assert_true(now_ms >= 257 || ids[i] != 39);
                assert_true(now_ms <= 257 || ids[i] != 39);
                seen[ids[i]] = true;
            }
        }
    }
    assert_int_equal(total, LEASES - 4); /* without 1, 37, 38 and 40 */
    assert_false(seen[40]);
    assert_int_equal(take(table, 492, ids), 1);
    assert_int_equal(ids[0], 40);
    /* Who follows and leads again knows nothing of it. */
    lease_table_put_off(table, 40, 5000);
    lease_table_follow(table);
    lease_table_validate(table);
    lease_table_lead(table, 600);
    lease_table_validate(table);
    lease_table_destroy(table);
}

static void a_new_ttl_makes_another_epoch_that_is_not_expiring(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    int64_t ids[16];
    int64_t ttl_ms;
    bool checkpointed;
    lease_table_lead(table, 0);
    grant(table, 1, 500, 0);
    assert_int_equal(take(table, 501, ids), 1);
    struct lease_facts before;
    struct lease_facts after;
    assert_true(lease_table_find(table, 1, &before));
    assert_int_equal(lease_table_set_ttl(table, 1, 9000, 501), STATUS_OK);
    assert_true(lease_table_find(table, 1, &after));
    assert_int_not_equal(before.epoch, after.epoch);
    assert_int_equal(lease_table_due_ms(table, 1), 9502);
    assert_int_equal(lease_table_renew(table, 1, 501, &ttl_ms, &checkpointed), STATUS_OK);
    assert_int_equal(take(table, 20000, ids), 1);
    lease_table_set_ttl(table, 1, LEASE_TTL_FOREVER, 20000);
    lease_table_unclaim(table, 1);
    assert_int_equal(take(table, UINT64_C(1) << 60, ids), 0);
    lease_table_destroy(table);
}

static void a_changed_ttl_counts_from_the_change(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    int64_t ids[16];
    int64_t remaining_ms;
    lease_table_lead(table, 0);
    grant(table, 1, 5000, 0);
    lease_table_checkpoint(table, 1, 77, 0);
    assert_int_equal(lease_table_set_ttl(table, 1, 100, 1000), STATUS_OK);
    struct lease_facts facts;
    assert_true(lease_table_find(table, 1, &facts));
    assert_int_equal(facts.ttl_ms, 100);
    assert_int_equal(facts.checkpoint_ms, 0);
    assert_int_equal(lease_table_remaining(table, 1, 1000, &remaining_ms), STATUS_OK);
    assert_int_equal(remaining_ms, 100);
    assert_int_equal(lease_table_remaining(table, 1, 1050, &remaining_ms), STATUS_OK);
    assert_int_equal(remaining_ms, 51);
    assert_int_equal(take(table, 1101, ids), 1);
    assert_int_equal(lease_table_set_ttl(table, 1, 0, 0), STATUS_INVALID);
    assert_int_equal(lease_table_set_ttl(table, 1, LEASE_TTL_MS_MAX + 1, 0),
                     STATUS_LEASE_TTL_TOO_LARGE);
    assert_int_equal(lease_table_set_ttl(table, 2, 1, 0), STATUS_LEASE_NOT_FOUND);
    lease_table_destroy(table);
}

static void a_lease_without_end_has_no_deadline(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    int64_t ids[16];
    int64_t value;
    bool checkpointed;
    lease_table_lead(table, 0);
    grant(table, 1, LEASE_TTL_FOREVER, 0);
    assert_true(lease_table_next_ms(table) == UINT64_MAX);
    assert_int_equal(lease_table_renew(table, 1, 5, &value, &checkpointed), STATUS_OK);
    assert_true(value == LEASE_TTL_FOREVER);
    assert_int_equal(lease_table_remaining(table, 1, 5, &value), STATUS_OK);
    assert_true(value == LEASE_TTL_FOREVER);
    assert_int_equal(lease_table_due_ms(table, 1), 0);
    assert_int_equal(take(table, UINT64_MAX / 2, ids), 0);
    lease_table_destroy(table);
}

static void the_longest_ttl_ends_on_time(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    int64_t ids[16];
    lease_table_lead(table, 12345);
    grant(table, 1, LEASE_TTL_MS_MAX, 12345);
    assert_int_equal(take(table, 12345 + (uint64_t)LEASE_TTL_MS_MAX, ids), 0);
    assert_int_equal(take(table, 12346 + (uint64_t)LEASE_TTL_MS_MAX, ids), 1);
    lease_table_destroy(table);
}

static void a_new_leader_gives_the_full_ttl_unless_a_checkpoint_says_less(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    int64_t ids[16];
    int64_t ttl_ms;
    bool checkpointed = false;
    grant(table, 1, 1000, 0);
    grant(table, 2, 1000, 0);
    grant(table, 3, 1000, 0);
    grant(table, 4, LEASE_TTL_FOREVER, 0);
    assert_int_equal(lease_table_checkpoint(table, 2, 400, 50000), STATUS_OK);
    assert_int_equal(lease_table_checkpoint(table, 3, 5000, 50000), STATUS_OK);
    assert_int_equal(lease_table_checkpoint(table, 4, 5, 0), STATUS_OK);
    assert_int_equal(lease_table_checkpoint(table, 9, 1, 0), STATUS_LEASE_NOT_FOUND);
    assert_int_equal(lease_table_checkpoint(table, 1, -1, 0), STATUS_INVALID);
    lease_table_lead(table, 50000);
    assert_int_equal(take(table, 50400, ids), 0);
    assert_int_equal(take(table, 50401, ids), 1);
    assert_int_equal(ids[0], 2);
    assert_int_equal(lease_table_renew(table, 3, 50401, &ttl_ms, &checkpointed), STATUS_OK);
    assert_true(checkpointed);
    assert_int_equal(lease_table_checkpoint(table, 3, 0, 0), STATUS_OK);
    assert_int_equal(lease_table_renew(table, 3, 50401, &ttl_ms, &checkpointed), STATUS_OK);
    assert_false(checkpointed);
    assert_int_equal(take(table, 51001, ids), 1);
    assert_int_equal(ids[0], 1);
    lease_table_destroy(table);
}

static void a_checkpoint_runs_down_while_others_lead(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    int64_t ids[16];
    grant(table, 1, 10000, 0);
    grant(table, 2, 10000, 0);
    lease_table_checkpoint(table, 1, 6000, 1000);
    /* A second, later count of the same: the better of the two holds. */
    lease_table_checkpoint(table, 1, 5900, 2000);
    lease_table_checkpoint(table, 2, 6000, 1000);
    lease_table_checkpoint(table, 2, 0, 1500);
    lease_table_lead(table, 3000);
    assert_int_equal(lease_table_due_ms(table, 1), 7001);
    assert_int_equal(lease_table_due_ms(table, 2), 13001);
    /* What was counted down by a takeover is told to the next leader. */
    struct lease_overdue overdue[4];
    assert_true(lease_table_has_overdue(table));
    assert_int_equal(lease_table_take_overdue(table, 3000, overdue, 4), 1);
    assert_int_equal(overdue[0].id, 1);
    assert_int_equal(overdue[0].remaining_ms, 4001);
    lease_table_checkpoint(table, 1, 4001, 3002);
    lease_table_noted(table, 1, overdue[0].epoch);
    /* The leader's own count goes on when it leads no more, and when it leads again. */
    lease_table_follow(table);
    lease_table_lead(table, 4000);
    assert_int_equal(lease_table_due_ms(table, 1), 7001);
    assert_int_equal(lease_table_due_ms(table, 2), 14001);
    assert_int_equal(take(table, 7001, ids), 1);
    lease_table_destroy(table);
}

static void a_term_begins_with_a_checkpoint_of_every_lease(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    size_t bytes = lease_table_bytes(table);
    for (int64_t id = 1; id <= 256; id++) {
        grant(table, id, 10000, 0);
    }
    grant(table, 300, LEASE_TTL_FOREVER, 0);
    lease_table_checkpoint(table, 2, 400, 0);
    size_t bytes_before = lease_table_bytes(table);
    lease_table_checkpoint_all(table, 0, 5000, 5000);
    /* It costs no memory: leader changes must not. */
    assert_int_equal(lease_table_bytes(table), bytes_before);
    assert_true(bytes_before > bytes);
    struct lease_facts facts;
    lease_table_find(table, 1, &facts);
    assert_int_equal(facts.checkpoint_ms, 10000);
    lease_table_find(table, 2, &facts);
    assert_int_equal(facts.checkpoint_ms, 400);
    lease_table_find(table, 300, &facts);
    assert_int_equal(facts.checkpoint_ms, 0);
    lease_table_lead(table, 7000);
    assert_int_equal(lease_table_due_ms(table, 1), 15001);
    lease_table_validate(table);
    lease_table_destroy(table);
}

/* A node that starts finds in its log what was written before, but not what was committed: whoever
 * waits for a grant or a renewal that is committed only now is answered now. */
static void what_was_in_the_log_counts_from_then_unless_somebody_still_waits_for_it(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    lease_table_set_index(table, 7);
    grant(table, 1, 10000, 900);
    grant(table, 2, 10000, 900);
    grant(table, 3, 10000, 900);
    lease_table_checkpoint(table, 3, 10000, 100);
    lease_table_set_index(table, 8);
    grant(table, 4, 10000, 900);
    lease_table_set_ttl(table, 2, 10000, 900);
    lease_table_checkpoint(table, 3, 0, 100);
    lease_table_set_index(table, 9);
    lease_table_checkpoint_all(table, 7, 100, 900);
    lease_table_lead(table, 1000);
    assert_int_equal(lease_table_due_ms(table, 1), 10101);
    for (int64_t id = 2; id <= 4; id++) {
        assert_int_equal(lease_table_due_ms(table, id), 10901);
    }
    lease_table_destroy(table);
}

static void a_lease_is_overdue_at_a_half_three_quarters_and_seven_eighths(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    struct lease_overdue overdue[4];
    int64_t ids[16];
    int64_t ttl_ms;
    bool checkpointed;
    static const uint64_t stages_ms[] = {5001, 7501, 8751};
    lease_table_lead(table, 0);
    grant(table, 1, 10000, 0);
    grant(table, 2, 900, 8000); /* too short to be noted */
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(take(table, stages_ms[i] - 1, ids), 0);
        assert_false(lease_table_has_overdue(table));
        assert_int_equal(take(table, stages_ms[i], ids), 0);
        assert_int_equal(lease_table_due_ms(table, 1), 10001);
        assert_int_equal(lease_table_take_overdue(table, stages_ms[i], overdue, 4), 1);
        assert_int_equal(overdue[0].id, 1);
        assert_int_equal(overdue[0].remaining_ms, 10001 - stages_ms[i]);
        lease_table_checkpoint(table, 1, overdue[0].remaining_ms, stages_ms[i] + 1);
        lease_table_noted(table, 1, overdue[0].epoch);
        lease_table_validate(table);
    }
    assert_int_equal(take(table, 10001, ids), 2);
    lease_table_unclaim(table, 1);
    /* Renewed, it begins anew. */
    assert_int_equal(lease_table_renew(table, 1, 20000, &ttl_ms, &checkpointed), STATUS_OK);
    assert_true(checkpointed);
    lease_table_checkpoint(table, 1, 0, 20000);
    assert_int_equal(take(table, 25001, ids), 0);
    assert_true(lease_table_has_overdue(table));
    /* Renewed before it was noted, it is no longer overdue. */
    assert_int_equal(lease_table_renew(table, 1, 25001, &ttl_ms, &checkpointed), STATUS_OK);
    assert_false(checkpointed);
    assert_int_equal(lease_table_take_overdue(table, 25001, overdue, 4), 0);
    lease_table_destroy(table);
}

/* Otherwise the checkpoint would stand although the renewal was acknowledged after it was taken,
 * and the next leader would end the lease early. */
static void a_renewal_while_a_checkpoint_is_on_its_way_must_clear_it(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    struct lease_overdue overdue[4];
    int64_t ids[16];
    int64_t ttl_ms;
    bool checkpointed = false;
    lease_table_lead(table, 0);
    grant(table, 1, 10000, 0);
    take(table, 6000, ids);
    assert_int_equal(lease_table_take_overdue(table, 6000, overdue, 4), 1);
    assert_int_equal(lease_table_renew(table, 1, 6001, &ttl_ms, &checkpointed), STATUS_OK);
    assert_true(checkpointed);
    lease_table_noted(table, 1, overdue[0].epoch + 1); /* of another lease */
    lease_table_renew(table, 1, 6002, &ttl_ms, &checkpointed);
    assert_true(checkpointed);
    lease_table_noted(table, 1, overdue[0].epoch);
    lease_table_renew(table, 1, 6003, &ttl_ms, &checkpointed);
    assert_false(checkpointed);
    lease_table_destroy(table);
}

static void expired_leases_come_in_batches_sorted_by_id(void **state) {
    enum { LEASES = 5000, BATCH = 700 };
    struct lease_table *table = lease_table_create(NULL);
    static int64_t ids[BATCH];
    static bool seen[LEASES];
    memset(seen, 0, sizeof seen);
    lease_table_lead(table, 0);
    for (int64_t i = 0; i < LEASES; i++) {
        grant(table, 1 + i * 2741 % LEASES, 1000, 0);
    }
    size_t total = 0;
    size_t n;
    do {
        n = lease_table_claim_expired(table, 1001, ids, BATCH);
        for (size_t i = 0; i < n; i++) {
            assert_true(i == 0 || ids[i - 1] < ids[i]);
            assert_false(seen[ids[i] - 1]);
            seen[ids[i] - 1] = true;
        }
        total += n;
    } while (n == BATCH);
    assert_int_equal(total, LEASES);
    lease_table_validate(table);
    lease_table_destroy(table);
}

/* --- Views and restoring. --- */

struct sum {
    size_t count;
    int64_t ids;
    int64_t ttls;
    int64_t rare;
};

static bool add_up(void *context, const struct lease_facts *facts) {
    struct sum *sum = context;
    sum->count++;
    sum->ids += facts->id;
    sum->ttls += facts->ttl_ms;
    sum->rare += facts->parent_id + facts->checkpoint_ms + facts->class;
    return true;
}

static bool stop_at_once(void *context, const struct lease_facts *facts) {
    ++*(size_t *)context;
    return false;
}

static void a_view_does_not_change(void **state) {
    enum { LEASES = 2000 };
    struct lease_table *table = lease_table_create(NULL);
    for (int64_t id = 1; id <= LEASES; id++) {
        grant(table, id, 10, 0);
    }
    lease_table_checkpoint(table, 5, 3, 0);
    grant(table, 9999, 1, 0);
    end(table, 9999);
    struct lease_view *view = lease_view_open(table);
    struct lease_view *other = lease_view_open(table);
    for (int64_t id = 1; id <= LEASES; id++) {
        if (id % 3 == 0) {
            end(table, id);
        } else {
            lease_table_set_ttl(table, id, 20, 0);
            lease_table_checkpoint(table, id, 7, 0);
        }
    }
    grant(table, 100000, 5, 0);
    lease_view_close(other);
    lease_table_validate(table);
    struct lease_view *later = lease_view_open(table);
    lease_table_destroy(table); /* a view outlives its table */

    struct sum sum = {0};
    assert_true(lease_view_visit(view, add_up, &sum));
    assert_int_equal(sum.count, LEASES);
    assert_int_equal(lease_view_count(view), LEASES);
    assert_int_equal(sum.ids, LEASES * (LEASES + 1) / 2);
    assert_int_equal(sum.ttls, LEASES * 10);
    assert_int_equal(sum.rare, 3);
    struct lease_ended ended[10];
    assert_int_equal(lease_view_ended(view, ended, 10), 1);
    assert_int_equal(ended[0].id, 9999);
    size_t visited = 0;
    assert_false(lease_view_visit(view, stop_at_once, &visited));
    assert_int_equal(visited, 1);

    sum = (struct sum){0};
    assert_true(lease_view_visit(later, add_up, &sum));
    assert_int_equal(sum.count, LEASES - LEASES / 3 + 1);
    assert_int_equal(lease_view_ended(later, ended, 10), 10);
    assert_int_equal(ended[0].id, 9999);
    assert_int_equal(ended[1].id, 3);
    lease_view_close(view);
    lease_view_close(later);
}

static void *read_view(void *data) {
    struct lease_view *view = data;
    static struct sum sums[50];
    for (size_t i = 0; i < 50; i++) {
        sums[i] = (struct sum){0};
        lease_view_visit(view, add_up, &sums[i]);
        if (memcmp(&sums[i], &sums[0], sizeof sums[0]) != 0) {
            return NULL;
        }
    }
    return sums;
}

static void a_view_is_read_by_another_thread_while_the_table_changes(void **state) {
    enum { LEASES = 20000 };
    struct lease_table *table = lease_table_create(NULL);
    lease_table_lead(table, 0);
    for (int64_t id = 1; id <= LEASES; id++) {
        grant(table, id, 100000, 0);
    }
    struct lease_view *view = lease_view_open(table);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_view, view), 0);
    int64_t ids[64];
    int64_t ttl_ms;
    bool checkpointed;
    for (int64_t id = 1; id <= LEASES; id++) {
        lease_table_renew(table, id, (uint64_t)id, &ttl_ms, &checkpointed);
        lease_table_checkpoint(table, id, id % 5, 0);
        if (id % 4 == 0) {
            end(table, id);
        } else if (id % 4 == 1) {
            lease_table_set_ttl(table, id, 50, (uint64_t)id);
        }
        grant(table, id + LEASES, 77, (uint64_t)id);
        lease_table_claim_expired(table, (uint64_t)id, ids, 64);
        if (id % 1000 == 0) {
            lease_view_close(lease_view_open(table));
        }
    }
    void *result;
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_non_null(result);
    const struct sum *sum = result;
    assert_int_equal(sum->count, LEASES);
    assert_int_equal(sum->ttls, (int64_t)LEASES * 100000);
    lease_view_close(view);
    lease_table_validate(table);
    lease_table_destroy(table);
}

static bool restore_one(void *context, const struct lease_facts *facts) {
    return lease_table_restore(context, facts) == STATUS_OK;
}

static void a_table_is_restored_from_a_view_with_parents_after_children(void **state) {
    struct lease_table *table = lease_table_create(NULL);
    /* The first slot is freed and taken by a parent of those after it. */
    grant(table, 50, 10, 0);
    grant(table, 1, 10, 0);
    end(table, 50);
    struct lease_table *copy = lease_table_create(NULL);
    struct lease_facts child = {
        .owner = KEY_SPACE_ETCD, .id = 3, .ttl_ms = 30, .parent_id = 2, .checkpoint_ms = 4};
    struct lease_facts sibling = {.owner = KEY_SPACE_ETCD, .id = 4, .ttl_ms = 30, .parent_id = 2};
    struct lease_facts parent = {
        .owner = KEY_SPACE_ETCD, .id = 2, .ttl_ms = 20, .parent_id = 1, .class = 9};
    assert_int_equal(lease_table_grant(table, &parent, 0), STATUS_OK);
    assert_int_equal(lease_table_grant(table, &sibling, 0), STATUS_OK);
    assert_int_equal(lease_table_grant(table, &child, 0), STATUS_OK);
    struct lease_view *view = lease_view_open(table);
    assert_true(lease_view_visit(view, restore_one, copy));
    struct lease_ended ended;
    assert_int_equal(lease_view_ended(view, &ended, 1), 1);
    lease_table_restore_ended(copy, &ended);
    lease_view_close(view);
    assert_int_equal(lease_table_restore_end(copy, 1), STATUS_OK);
    lease_table_validate(copy);
    assert_int_equal(lease_table_first_child(copy, 1), 2);
    assert_int_equal(lease_table_first_child(copy, 2), 3);
    struct lease_facts found;
    assert_true(lease_table_find(copy, 2, &found));
    assert_int_equal(found.class, 9);
    ended.id = 0;
    assert_int_equal(lease_table_ended(copy, &ended, 1), 1);
    assert_int_equal(ended.id, 50);
    lease_table_destroy(table);
    lease_table_destroy(copy);
}

static void a_restore_refuses_what_cannot_be(void **state) {
    struct lease_facts facts[] = {
        {.owner = KEY_SPACE_ETCD, .id = 1, .ttl_ms = 5, .parent_id = 2},
        {.owner = KEY_SPACE_ETCD, .id = 2, .ttl_ms = 5, .parent_id = 3},
        {.owner = KEY_SPACE_ETCD, .id = 3, .ttl_ms = 5, .parent_id = 1},
    };
    struct lease_facts bad = {.owner = KEY_SPACE_ETCD, .id = 4, .ttl_ms = 0};
    struct lease_table *table = lease_table_create(NULL);
    assert_int_equal(lease_table_restore(table, &bad), STATUS_CORRUPT);
    assert_int_equal(lease_table_restore(table, &facts[0]), STATUS_OK);
    assert_int_equal(lease_table_restore(table, &facts[0]), STATUS_CORRUPT);
    assert_int_equal(lease_table_restore_end(table, 1), STATUS_CORRUPT); /* no parent */
    assert_int_equal(lease_table_restore(table, &facts[1]), STATUS_OK);
    assert_int_equal(lease_table_restore(table, &facts[2]), STATUS_OK);
    assert_int_equal(lease_table_restore_end(table, 1), STATUS_CORRUPT); /* a circle */
    lease_table_destroy(table);
}

/* --- Memory. --- */

static void a_lease_costs_at_most_100_bytes_and_memory_comes_back(void **state) {
    enum { LEASES = 200000 };
    struct lease_table *table = lease_table_create(NULL);
    size_t empty = lease_table_bytes(table);
    lease_table_lead(table, 0);
    for (int64_t id = 1; id <= LEASES; id++) {
        grant(table, id, 60000, 0);
    }
    assert_true(lease_table_bytes(table) - empty <= (size_t)LEASES * 100);
    for (int64_t id = 1; id <= LEASES; id++) {
        lease_table_checkpoint(table, id, 30000, 0);
    }
    assert_true(lease_table_bytes(table) - empty <= (size_t)LEASES * 100);
    lease_table_validate(table);
    for (int64_t id = 1; id <= LEASES; id++) {
        end(table, id);
    }
    lease_table_validate(table);
    assert_true(lease_table_bytes(table) - empty <= 100000);
    lease_table_destroy(table);
}

/* The ids that met in one bucket of the hash without a key: each undoes its mixing. */
static int64_t colliding_id(uint64_t number) {
    uint64_t hash = number << 20;
    hash ^= hash >> 33;
    hash *= UINT64_C(0x9cb4b2f8129337db); /* the inverse of 0xc4ceb9fe1a85ec53 */
    hash ^= hash >> 33;
    hash *= UINT64_C(0x4f74430c22a54005); /* the inverse of 0xff51afd7ed558ccd */
    hash ^= hash >> 33;
    return (int64_t)(hash ^ UINT64_C(0x2545f4914f6cdd1d));
}

static void chosen_ids_do_not_meet_in_one_bucket(void **state) {
    enum { LEASES = 20000, CHAIN_MAX = 32 };
    struct hash_key key;
    hash_key_fill(&key);
    struct lease_table *table = lease_table_create(&key);
    for (uint64_t i = 1; i <= LEASES; i++) {
        grant(table, colliding_id(i), 1000, 0);
    }
    for (size_t i = 0; i < table->index.n_buckets; i++) {
        unsigned length = 0;
        for (uint32_t at = table->index.buckets[i]; at != LEASE_NONE;
             at = lease_pages_local(&table->pages, at)->next) {
            length++;
        }
        assert_true(length < CHAIN_MAX);
    }
    lease_table_validate(table);
    lease_table_destroy(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_granted_lease_is_found_with_its_facts),
        cmocka_unit_test(a_grant_that_cannot_be_is_refused_and_changes_nothing),
        cmocka_unit_test(an_ended_lease_is_gone_and_its_id_is_free),
        cmocka_unit_test(the_last_ended_leases_are_remembered_newest_first),
        cmocka_unit_test(ids_come_in_ascending_order),
        cmocka_unit_test(records_attach_and_detach_in_any_order),
        cmocka_unit_test(the_first_child_is_the_one_with_the_smallest_id),
        cmocka_unit_test(a_large_family_ends_in_order),
        cmocka_unit_test(a_lease_expires_after_its_ttl_and_not_before),
        cmocka_unit_test(nothing_expires_while_following),
        cmocka_unit_test(renewing_counts_anew),
        cmocka_unit_test(an_expiring_lease_cannot_be_renewed_until_it_is_untaken),
        cmocka_unit_test(a_lease_that_is_put_off_is_in_nobodys_way),
        cmocka_unit_test(a_new_ttl_makes_another_epoch_that_is_not_expiring),
        cmocka_unit_test(a_changed_ttl_counts_from_the_change),
        cmocka_unit_test(a_lease_without_end_has_no_deadline),
        cmocka_unit_test(the_longest_ttl_ends_on_time),
        cmocka_unit_test(a_new_leader_gives_the_full_ttl_unless_a_checkpoint_says_less),
        cmocka_unit_test(a_checkpoint_runs_down_while_others_lead),
        cmocka_unit_test(a_term_begins_with_a_checkpoint_of_every_lease),
        cmocka_unit_test(what_was_in_the_log_counts_from_then_unless_somebody_still_waits_for_it),
        cmocka_unit_test(a_lease_is_overdue_at_a_half_three_quarters_and_seven_eighths),
        cmocka_unit_test(a_renewal_while_a_checkpoint_is_on_its_way_must_clear_it),
        cmocka_unit_test(expired_leases_come_in_batches_sorted_by_id),
        cmocka_unit_test(a_view_does_not_change),
        cmocka_unit_test(a_view_is_read_by_another_thread_while_the_table_changes),
        cmocka_unit_test(a_table_is_restored_from_a_view_with_parents_after_children),
        cmocka_unit_test(a_restore_refuses_what_cannot_be),
        cmocka_unit_test(a_lease_costs_at_most_100_bytes_and_memory_comes_back),
        cmocka_unit_test(chosen_ids_do_not_meet_in_one_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
