/* Key spaces: nothing that names one reaches the keys of another. */
#include "core/cluster_version.h"
#include "core/stored_key.h"
#include "core/txn.h"
#include "state_machine_fixture.h"

#include <cmocka.h>

enum { LONG_KEY_SIZE = 1000 };

static const struct key_space_id left = {16};
static const struct key_space_id middle = {17};
static const struct key_space_id right = {18};

static void put_in(struct fixture *fixture, struct key_space_id space, struct bytes key,
                   const char *value) {
    struct key_store *keys = state_machine_keys(fixture->machine);
    key_store_begin(keys);
    key_store_put(keys, space, key, bytes_from_text(value), 0, NULL);
    key_store_end(keys);
}

static void fill(struct fixture *fixture) {
    const struct key_space_id spaces[] = {left, middle, right};
    static const uint8_t highest[] = {0xff, 0xff};
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        put_in(fixture, spaces[i], bytes_of("", 1), "lowest");
        put_in(fixture, spaces[i], bytes_from_text("a"), "a");
        put_in(fixture, spaces[i], bytes_of(highest, sizeof highest), "highest");
    }
}

static const struct range_request everything = {.key = {(const uint8_t *)"", 1},
                                                .range_end = {(const uint8_t *)"", 1}};

static void a_range_of_everything_ends_with_its_space(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    fill(&fixture);
    struct key_store *keys = state_machine_keys(fixture.machine);
    int64_t newest = key_store_revision(keys);
    for (int64_t revision = 0; revision <= newest; revision += newest) {
        struct range_request request = everything;
        request.revision = revision;
        struct range_outcome outcome;
        assert_int_equal(key_store_range(keys, middle, &request,
                                         &(struct key_work){.left = SIZE_MAX}, &fixture.arena,
                                         &outcome),
                         STATUS_OK);
        assert_int_equal(outcome.count, 3);
        assert_int_equal(outcome.n_records, 3);
        for (size_t i = 0; i < outcome.n_records; i++) {
            assert_int_equal(record_space(outcome.records[i]).value, middle.value);
        }
        /* So that the second round reads an older revision. */
        put_in(&fixture, right, bytes_from_text("b"), "b");
        put_in(&fixture, left, bytes_from_text("b"), "b");
    }
    assert_int_equal(key_store_count(keys, middle, everything.key, everything.range_end), 3);
    assert_int_equal(key_store_count(keys, KEY_SPACE_ETCD, everything.key, everything.range_end),
                     0);
    fixture_clear(&fixture);
}

static void deleting_everything_leaves_the_other_spaces(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    fill(&fixture);
    assert_int_equal(put(&fixture, "a", "etcd", 0).status, STATUS_OK);
    struct command command = {.type = COMMAND_DELETE,
                              .delete = {.key = everything.key, .range_end = everything.range_end}};
    assert_int_equal(fixture_apply(&fixture, &command).delete.deleted, 1);
    struct key_store *keys = state_machine_keys(fixture.machine);
    assert_int_equal(key_store_count(keys, left, everything.key, everything.range_end), 3);
    assert_int_equal(key_store_count(keys, middle, everything.key, everything.range_end), 3);
    assert_int_equal(key_store_count(keys, right, everything.key, everything.range_end), 3);
    assert_null(find(&fixture, "a"));
    key_store_validate(keys);
    fixture_clear(&fixture);
}

static void one_key_in_two_spaces_is_two_keys(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    struct bytes key = bytes_from_text("k");
    put_in(&fixture, left, key, "1");
    put_in(&fixture, left, key, "2");
    put_in(&fixture, right, key, "other");
    struct key_store *keys = state_machine_keys(fixture.machine);
    const struct record *in_left = key_store_find(keys, left, key);
    const struct record *in_right = key_store_find(keys, right, key);
    assert_int_equal(in_left->version, 2);
    assert_int_equal(in_right->version, 1);
    /* One line of revisions for both. */
    assert_true(in_right->create_revision > in_left->mod_revision);
    assert_null(key_store_find(keys, middle, key));
    fixture_clear(&fixture);
}

static void long_keys_are_found_in_their_space(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    char text[LONG_KEY_SIZE];
    memset(text, 'x', sizeof text);
    for (size_t size = STORED_KEY_SHORT - 2; size <= STORED_KEY_SHORT + 2; size++) {
        put_in(&fixture, left, bytes_of(text, size), "v");
    }
    put_in(&fixture, left, bytes_of(text, sizeof text), "v");
    put_in(&fixture, right, bytes_of(text, sizeof text), "v");
    struct key_store *keys = state_machine_keys(fixture.machine);
    for (size_t size = STORED_KEY_SHORT - 2; size <= STORED_KEY_SHORT + 2; size++) {
        const struct record *record = key_store_find(keys, left, bytes_of(text, size));
        assert_non_null(record);
        assert_int_equal(record_key(record).size, size);
        assert_null(key_store_find(keys, right, bytes_of(text, size)));
    }
    assert_int_equal(key_store_count(keys, left, bytes_of(text, 1), bytes_of(text, sizeof text)),
                     5);
    assert_int_equal(key_store_count(keys, left, bytes_of(text, sizeof text), bytes_of("", 1)), 1);
    fixture_clear(&fixture);
}

/* --- Watches. --- */

struct seen {
    size_t n;
    struct key_space_id space;
};

static bool note_event(void *data, const struct watch_batch *batch) {
    struct seen *seen = data;
    for (size_t i = 0; i < batch->n_events; i++) {
        assert_int_equal(record_space(batch->events[i]).value, seen->space.value);
        seen->n++;
    }
    return true;
}

static const struct watcher_callbacks callbacks = {.deliver = note_event};

static void a_watch_of_everything_sees_its_space_alone(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    struct watch_hub *hub = state_machine_watches(fixture.machine);
    struct seen seen = {.space = middle};
    struct seen seen_one = {.space = middle};
    struct seen seen_late = {.space = middle};
    watch_hub_add(hub, &(struct watcher_options){.space = middle,
                                                 .key = everything.key,
                                                 .range_end = everything.range_end,
                                                 .callbacks = &callbacks,
                                                 .data = &seen});
    watch_hub_add(hub, &(struct watcher_options){.space = middle,
                                                 .key = bytes_from_text("a"),
                                                 .callbacks = &callbacks,
                                                 .data = &seen_one});
    fill(&fixture);
    watch_hub_publish(hub);
    assert_int_equal(seen.n, 3);
    assert_int_equal(seen_one.n, 1);
    /* And one that is caught up from history. */
    watch_hub_add(hub, &(struct watcher_options){.space = middle,
                                                 .key = everything.key,
                                                 .range_end = everything.range_end,
                                                 .start_revision = 1,
                                                 .callbacks = &callbacks,
                                                 .data = &seen_late});
    while (watch_hub_work(hub, 100)) {
    }
    assert_int_equal(seen_late.n, 3);
    fixture_clear(&fixture);
}

/* --- Leases. --- */

static void grant_of(struct fixture *fixture, int64_t id, struct key_space_id owner) {
    struct lease_facts facts = {.id = id, .ttl_ms = 1000, .owner = owner};
    assert_int_equal(lease_table_grant(state_machine_leases(fixture->machine), &facts, 0),
                     STATUS_OK);
}

static void etcd_cannot_name_the_lease_of_another(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    grant_of(&fixture, 7, left);
    assert_int_equal(put(&fixture, "k", "v", 7).status, STATUS_LEASE_NOT_FOUND);
    assert_int_equal(revoke(&fixture, 7).status, STATUS_LEASE_NOT_FOUND);
    assert_int_equal(grant_child(&fixture, 8, 1000, 7).status, STATUS_LEASE_NOT_FOUND);
    assert_int_equal(grant(&fixture, 7, 1000).status, STATUS_LEASE_EXISTS);
    struct command set_ttl = {.type = COMMAND_LEASE_SET_TTL, .set_ttl = {.id = 7, .ttl_ms = 5}};
    assert_int_equal(fixture_apply(&fixture, &set_ttl).status, STATUS_LEASE_NOT_FOUND);
    struct lease_facts facts;
    assert_true(lease_table_find(state_machine_leases(fixture.machine), 7, &facts));
    assert_int_equal(facts.ttl_ms, 1000);
    fixture_clear(&fixture);
}

/* --- Snapshots. --- */

static uint32_t format_of(const struct buffer *snapshot) {
    struct reader reader;
    reader_init(&reader, bytes_of(snapshot->data, snapshot->size));
    reader.position = 8;
    return reader_get_u32(&reader);
}

static void write_snapshot(struct fixture *fixture, struct buffer *out_snapshot) {
    struct snapshot_view *view = snapshot_view_open(fixture->machine);
    buffer_init(out_snapshot);
    snapshot_view_write(view, out_snapshot);
    snapshot_view_close(view);
}

static struct outcome raise_version(struct fixture *fixture, uint32_t version) {
    struct command command = {.type = COMMAND_CLUSTER_VERSION,
                              .cluster_version = {.version = version}};
    return fixture_apply(fixture, &command);
}

static void snapshots_follow_the_version_of_the_cluster(void **state) {
    struct fixture a;
    struct fixture b;
    fixture_init(&a);
    fixture_init(&b);
    struct buffer snapshot;
    assert_int_equal(put(&a, "k", "v", 0).status, STATUS_OK);
    write_snapshot(&a, &snapshot);
    assert_int_equal(format_of(&snapshot), 2);
    assert_int_equal(state_machine_restore(b.machine, bytes_of(snapshot.data, snapshot.size)),
                     STATUS_OK);
    assert_int_equal(state_machine_cluster_version(b.machine), CLUSTER_VERSION_FIRST);
    assert_non_null(find(&b, "k"));
    buffer_clear(&snapshot);

    assert_int_equal(raise_version(&a, CLUSTER_VERSION_RULES).status, STATUS_OK);
    fill(&a);
    grant_of(&a, 7, left);
    assert_int_equal(grant(&a, 8, 1000).status, STATUS_OK);
    write_snapshot(&a, &snapshot);
    assert_int_equal(format_of(&snapshot), 3);
    assert_int_equal(state_machine_restore(b.machine, bytes_of(snapshot.data, snapshot.size)),
                     STATUS_OK);
    assert_int_equal(state_machine_cluster_version(b.machine), CLUSTER_VERSION_RULES);
    struct buffer again;
    write_snapshot(&b, &again);
    assert_int_equal(again.size, snapshot.size);
    assert_memory_equal(again.data, snapshot.data, snapshot.size);
    struct lease_facts facts;
    assert_true(lease_table_find(state_machine_leases(b.machine), 7, &facts));
    assert_int_equal(facts.owner.value, left.value);
    assert_true(lease_table_find(state_machine_leases(b.machine), 8, &facts));
    assert_int_equal(facts.owner.value, KEY_SPACE_ETCD.value);
    buffer_clear(&again);
    buffer_clear(&snapshot);
    fixture_clear(&a);
    fixture_clear(&b);
}

static void the_version_of_the_cluster_is_never_lowered(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    assert_int_equal(state_machine_cluster_version(fixture.machine), CLUSTER_VERSION_FIRST);
    assert_int_equal(raise_version(&fixture, CLUSTER_VERSION_RULES).status, STATUS_OK);
    assert_int_equal(raise_version(&fixture, CLUSTER_VERSION_FIRST).status, STATUS_OK);
    assert_int_equal(state_machine_cluster_version(fixture.machine), CLUSTER_VERSION_RULES);
    fixture_clear(&fixture);
}

static void add_member(struct fixture *fixture, uint64_t id) {
    struct member_facts facts = {.id = id};
    struct command command = {.type = COMMAND_MEMBER,
                              .member = {.action = MEMBER_ADD, .facts = &facts}};
    char url[32];
    snprintf(url, sizeof url, "http://m%d:2380", (int)id);
    facts.peer_urls[facts.n_peer_urls++] = bytes_from_text(url);
    assert_int_equal(fixture_apply(fixture, &command).status, STATUS_OK);
}

static enum status raise_for(struct fixture *fixture, const uint64_t *ids, size_t n) {
    const struct command command = {
        .type = COMMAND_CLUSTER_VERSION,
        .cluster_version = {.version = CLUSTER_VERSION_RULES, .n = n, .member_ids = ids}};
    return fixture_apply(fixture, &command).status;
}

static void a_raise_waits_for_a_member_that_was_added_meanwhile(void **state) {
    struct fixture fixture;
    const uint64_t ids[] = {2, 1, 3};
    fixture_init(&fixture);
    struct member_facts first = {.id = 1};
    first.peer_urls[first.n_peer_urls++] = bytes_from_text("http://m1:2380");
    struct command begin = {.type = COMMAND_MEMBERS_BEGIN,
                            .members_begin = {.token_hash = 5, .n = 1, .members = &first}};
    assert_int_equal(fixture_apply(&fixture, &begin).status, STATUS_OK);
    add_member(&fixture, 2);
    add_member(&fixture, 3); /* before the raise in the log, after the members were heard */
    assert_int_equal(raise_for(&fixture, ids, 2), STATUS_UNSUPPORTED);
    assert_int_equal(raise_for(&fixture, ids, 0), STATUS_UNSUPPORTED);
    assert_int_equal(state_machine_cluster_version(fixture.machine), CLUSTER_VERSION_FIRST);
    /* One that was removed meanwhile does not matter. */
    struct member_facts gone = {.id = 2};
    struct command removal = {.type = COMMAND_MEMBER,
                              .member = {.action = MEMBER_REMOVE, .facts = &gone}};
    assert_int_equal(fixture_apply(&fixture, &removal).status, STATUS_OK);
    assert_int_equal(raise_for(&fixture, ids, 3), STATUS_OK);
    assert_int_equal(state_machine_cluster_version(fixture.machine), CLUSTER_VERSION_RULES);
    fixture_clear(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_of_everything_ends_with_its_space),
        cmocka_unit_test(deleting_everything_leaves_the_other_spaces),
        cmocka_unit_test(one_key_in_two_spaces_is_two_keys),
        cmocka_unit_test(long_keys_are_found_in_their_space),
        cmocka_unit_test(a_watch_of_everything_sees_its_space_alone),
        cmocka_unit_test(etcd_cannot_name_the_lease_of_another),
        cmocka_unit_test(snapshots_follow_the_version_of_the_cluster),
        cmocka_unit_test(the_version_of_the_cluster_is_never_lowered),
        cmocka_unit_test(a_raise_waits_for_a_member_that_was_added_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
