/* Backups and their restoring: a state, the file of it, and the state again. */
#include "doors/etcd/etcd_import.h"

#include "bolt/bolt_writer.h"
#include "doors/etcd/etcd_backup.h"
#include "doors/etcd/etcd_hash.h"
#include "doors/etcd/etcd_stored.h"
#include "rule_fixture.h"

#include <stdlib.h>

static const uint8_t token_key[AUTH_TOKEN_KEY_SIZE] = {7};

static void back_up(struct fixture *fixture, struct buffer *out_file) {
    struct snapshot_view *view = snapshot_view_open(fixture->machine);
    struct etcd_backup *backup = etcd_backup_create(view);
    buffer_init(out_file);
    while (etcd_backup_next(backup, out_file)) {
    }
    assert_int_equal(out_file->size, etcd_backup_size(backup));
    etcd_backup_destroy(backup);
    snapshot_view_close(view);
}

struct restored {
    struct snapshot_target target;
    struct etcd_import_report report;
    char error[256];
};

static enum status restore_with(struct restored *restored, const struct buffer *file,
                                int64_t bump_revision) {
    const struct etcd_import_options options = {.bump_revision = bump_revision,
                                                .is_marked_compacted = bump_revision > 0,
                                                .token_key = bytes_of(token_key, sizeof token_key)};
    *restored = (struct restored){.target = {.keys = key_store_create(),
                                             .leases = lease_table_create(NULL),
                                             .members = member_table_create(),
                                             .auth = auth_create()}};
    enum status status = etcd_import(bytes_of(file->data, file->size), &options, &restored->target,
                                     &restored->report, restored->error, sizeof restored->error);
    if (status == STATUS_OK) {
        key_store_validate(restored->target.keys);
        lease_table_validate(restored->target.leases);
        auth_validate(restored->target.auth);
    }
    return status;
}

static void restored_clear(struct restored *restored) {
    auth_destroy(restored->target.auth);
    member_table_destroy(restored->target.members);
    lease_table_destroy(restored->target.leases);
    key_store_destroy(restored->target.keys);
}

static void change_auth(struct fixture *fixture, struct auth_change change) {
    struct command command = {.type = COMMAND_AUTH, .auth = change};
    assert_int_equal(fixture_apply(fixture, &command).status, STATUS_OK);
}

static void add_users(struct fixture *fixture) {
    struct bytes root = bytes_from_text("root");
    struct bytes role = bytes_from_text("readers");
    change_auth(fixture, (struct auth_change){.action = AUTH_ROLE_ADD, .role = role});
    change_auth(fixture,
                (struct auth_change){.action = AUTH_ROLE_GRANT_PERMISSION,
                                     .role = role,
                                     .permission = {.right = RIGHT_READ,
                                                    .range = {.space = KEY_SPACE_ETCD,
                                                              .key = bytes_from_text("a"),
                                                              .range_end = bytes_of("", 1)}}});
    change_auth(fixture, (struct auth_change){.action = AUTH_USER_ADD,
                                              .user = root,
                                              .password_hash = bytes_from_text("$2a$10$x")});
    change_auth(fixture, (struct auth_change){.action = AUTH_USER_ADD,
                                              .user = bytes_from_text("by-certificate")});
    change_auth(fixture,
                (struct auth_change){.action = AUTH_USER_GRANT_ROLE, .user = root, .role = root});
    change_auth(fixture, (struct auth_change){.action = AUTH_USER_GRANT_ROLE,
                                              .user = bytes_from_text("by-certificate"),
                                              .role = role});
    change_auth(fixture, (struct auth_change){
                             .action = AUTH_ENABLE,
                             .token_key = bytes_of("the key of the cluster before it.", 32)});
}

static void fill(struct fixture *fixture) {
    rule_fixture_init(fixture);
    assert_int_equal(grant(fixture, 5, 1500).status, STATUS_OK);
    assert_int_equal(grant(fixture, -6, 60000).status, STATUS_OK);
    for (int i = 0; i < 300; i++) {
        char key[16];
        snprintf(key, sizeof key, "a%d", i % 100);
        put(fixture, key, i % 3 == 0 ? "v" : "", i % 4 == 0 ? 5 : 0);
    }
    put(fixture, "by-negative", "x", -6);
    del(fixture, "a1", "a2");
    assert_int_equal(compact(fixture, 250).status, STATUS_OK);
    del(fixture, "a3", "");
    /* Keys of another space, and a lease of another owner: etcd has no place for either. */
    (void)lock(fixture, "door", 77, 2500);
    count(fixture, "counter");
    add_users(fixture);
}

static uint32_t hash_of(struct key_store *keys, int64_t revision) {
    uint32_t hash = 0;
    struct key_view *view = key_view_open(keys);
    assert_int_equal(etcd_hash(view, revision, &hash), STATUS_OK);
    key_view_close(view);
    return hash;
}

static void assert_same_users(const struct auth *a, const struct auth *b) {
    assert_int_equal(auth_is_enabled(a), auth_is_enabled(b));
    assert_int_equal(auth_revision(a), auth_revision(b));
    assert_int_equal(auth_user_count(a), auth_user_count(b));
    assert_int_equal(auth_role_count(a), auth_role_count(b));
    for (size_t i = 0; i < auth_user_count(a); i++) {
        struct auth_user left;
        struct auth_user right;
        auth_user_at(a, i, &left);
        auth_user_at(b, i, &right);
        assert_true(bytes_equal(left.name, right.name));
        assert_true(bytes_equal(left.password_hash, right.password_hash));
        assert_int_equal(left.n_roles, right.n_roles);
        assert_true(bytes_equal(left.roles[0], right.roles[0]));
    }
    struct auth_role left;
    struct auth_role right;
    auth_role_at(a, 0, &left);
    auth_role_at(b, 0, &right);
    assert_int_equal(left.n_permissions, right.n_permissions);
    assert_int_equal(left.permissions[0].right, right.permissions[0].right);
    assert_true(bytes_equal(left.permissions[0].range.key, right.permissions[0].range.key));
    assert_true(
        bytes_equal(left.permissions[0].range.range_end, right.permissions[0].range.range_end));
}

static void a_backup_loses_nothing(void **state) {
    struct fixture fixture;
    struct buffer file;
    struct restored restored;
    fill(&fixture);
    back_up(&fixture, &file);
    assert_int_equal(restore_with(&restored, &file, 0), STATUS_OK);
    assert_true(restored.report.is_of_leased);
    struct key_store *keys = state_machine_keys(fixture.machine);
    int64_t revision = key_store_revision(keys);
    assert_int_equal(restored.report.revision, revision);
    assert_int_equal(restored.report.compacted_revision, 250);
    static const uint8_t spaces[] = {1, 2, 3, 250};
    for (size_t i = 0; i < sizeof spaces; i++) {
        uint32_t before = 0;
        uint32_t after = 1;
        struct key_space_id space = {.value = spaces[i]};
        assert_int_equal(key_store_hash(keys, space, 0, &before), STATUS_OK);
        assert_int_equal(key_store_hash(restored.target.keys, space, 0, &after), STATUS_OK);
        assert_int_equal(before, after);
    }
    assert_int_equal(hash_of(keys, 260), hash_of(restored.target.keys, 260));
    assert_int_equal(lease_table_count(restored.target.leases),
                     lease_table_count(state_machine_leases(fixture.machine)));
    struct lease_facts facts;
    assert_true(lease_table_find(restored.target.leases, 5, &facts));
    assert_int_equal(facts.ttl_ms, 1500);
    assert_int_equal(lease_table_key_count(restored.target.leases, 5),
                     lease_table_key_count(state_machine_leases(fixture.machine), 5));
    assert_same_users(state_machine_auth(fixture.machine), restored.target.auth);
    /* Tokens of the old cluster are worth nothing. */
    assert_true(
        bytes_equal(auth_token_key(restored.target.auth), bytes_of(token_key, sizeof token_key)));
    restored_clear(&restored);
    buffer_clear(&file);
    fixture_clear(&fixture);
}

static void a_part_of_ours_that_etcd_has_left_behind_is_not_taken(void **state) {
    struct fixture fixture;
    struct buffer file;
    struct restored restored;
    fill(&fixture);
    back_up(&fixture, &file);
    /* As if etcd had changed the TTL of a lease: 60 s, after its tag. */
    const uint8_t ttl[] = {0x10, 60};
    uint8_t *found = memmem(file.data, file.size, "\xff\xff\xff\xff\x01\x10\x3c", 7);
    assert_non_null(found);
    assert_memory_equal(found + 5, ttl, sizeof ttl);
    found[6] = 61;
    assert_int_equal(restore_with(&restored, &file, 0), STATUS_OK);
    assert_false(restored.report.is_of_leased);
    assert_true(restored.report.n_left_out > 0);
    struct lease_facts facts;
    assert_true(lease_table_find(restored.target.leases, -6, &facts));
    assert_int_equal(facts.ttl_ms, 61000);
    restored_clear(&restored);
    buffer_clear(&file);
    fixture_clear(&fixture);
}

/* As if the file were etcd's own: another name of the bucket, of the same length. */
static void forget_own_part(struct buffer *file) {
    for (size_t i = 0; i + 6 < file->size; i++) {
        if (memcmp(file->data + i, "leased", 6) == 0 && file->data[i - 1] != 'n') {
            file->data[i + 5] = 'e';
        }
    }
}

static void a_backup_has_no_key_of_tokens(void **state) {
    struct fixture fixture;
    struct buffer file;
    fill(&fixture);
    back_up(&fixture, &file);
    struct bytes key = auth_token_key(state_machine_auth(fixture.machine));
    assert_int_equal(key.size, AUTH_TOKEN_KEY_SIZE);
    assert_null(memmem(file.data, file.size, key.data, key.size));
    buffer_clear(&file);
    fixture_clear(&fixture);
}

static void without_our_part_it_is_what_etcd_knows(void **state) {
    struct fixture fixture;
    struct buffer file;
    struct restored restored;
    fill(&fixture);
    back_up(&fixture, &file);
    forget_own_part(&file);
    assert_int_equal(restore_with(&restored, &file, 0), STATUS_OK);
    assert_false(restored.report.is_of_leased);
    struct key_store *keys = state_machine_keys(fixture.machine);
    /* The last revision was of another protocol: it is told all the same. */
    assert_int_equal(restored.report.revision, key_store_revision(keys));
    assert_int_equal(hash_of(keys, 0), hash_of(restored.target.keys, 0));
    assert_int_equal(hash_of(keys, 250), hash_of(restored.target.keys, 250));
    assert_int_equal(lease_table_count(restored.target.leases), 2);
    struct lease_facts facts;
    assert_true(lease_table_find(restored.target.leases, 5, &facts));
    assert_int_equal(facts.ttl_ms, 2000); /* whole seconds, never less */
    assert_true(lease_table_find(restored.target.leases, -6, &facts));
    assert_int_equal(lease_table_key_count(restored.target.leases, -6), 1);
    assert_same_users(state_machine_auth(fixture.machine), restored.target.auth);
    restored_clear(&restored);
    buffer_clear(&file);
    fixture_clear(&fixture);
}

/* Changes count on from there, and the next start reads what they came to. */
static void users_at_the_end_of_the_revisions_are_refused(void **state) {
    const uint64_t last = AUTH_REVISION_IMPORTED_MAX;
    for (int is_own = 0; is_own < 2; is_own++) {
        for (uint64_t revision = last; revision <= last + 1; revision++) {
            struct fixture fixture;
            struct buffer file;
            struct restored restored;
            fill(&fixture);
            auth_renew((struct auth *)state_machine_auth(fixture.machine), revision,
                       bytes_of(token_key, sizeof token_key));
            back_up(&fixture, &file);
            if (!is_own) {
                forget_own_part(&file);
            }
            assert_int_equal(restore_with(&restored, &file, 0),
                             revision <= last ? STATUS_OK : STATUS_CORRUPT);
            restored_clear(&restored);
            buffer_clear(&file);
            fixture_clear(&fixture);
        }
    }
}

static void a_raised_revision_compacts_what_was_before(void **state) {
    struct fixture fixture;
    struct buffer file;
    struct restored restored;
    fill(&fixture);
    back_up(&fixture, &file);
    assert_int_equal(restore_with(&restored, &file, 1000), STATUS_OK);
    int64_t revision = key_store_revision(state_machine_keys(fixture.machine)) + 1000;
    assert_int_equal(key_store_revision(restored.target.keys), revision);
    assert_int_equal(key_store_compacted_revision(restored.target.keys), revision);
    assert_int_equal(restored.report.revision, revision);
    restored_clear(&restored);
    buffer_clear(&file);
    fixture_clear(&fixture);
}

static void an_empty_store_comes_back(void **state) {
    struct fixture fixture;
    struct buffer file;
    struct restored restored;
    fixture_init(&fixture);
    back_up(&fixture, &file);
    assert_int_equal(restore_with(&restored, &file, 0), STATUS_OK);
    assert_int_equal(key_store_revision(restored.target.keys), 1);
    assert_int_equal(restored.report.n_records, 0);
    restored_clear(&restored);
    buffer_clear(&file);
    fixture_clear(&fixture);
}

/* etcd keeps keys whose lease it lost. */
static void write_orphan(struct bolt_writer *writer) {
    static const uint8_t message[] = {0x0a, 1, 'k',  0x10, 2,   0x18, 2,
                                      0x20, 1, 0x2a, 1,    'v', 0x30, 9};
    const struct etcd_revision revision = {.main = 2};
    uint8_t key[ETCD_REVISION_SIZE_MAX];
    size_t size = etcd_revision_write(&revision, key);
    bolt_writer_begin_bucket(writer, ETCD_BUCKET_KEY);
    bolt_writer_put(writer, bytes_of(key, size), bytes_of(message, sizeof message));
    bolt_writer_end_bucket(writer);
}

static void a_key_whose_lease_is_missing_stays_without_one(void **state) {
    struct buffer file;
    struct restored restored;
    buffer_init(&file);
    struct bolt_writer *writer = bolt_writer_create(&bolt_plan_none, &file);
    write_orphan(writer);
    struct bolt_plan plan = bolt_writer_finish(writer);
    bolt_writer_destroy(writer);
    file.size = 0;
    writer = bolt_writer_create(&plan, &file);
    write_orphan(writer);
    bolt_writer_finish(writer);
    bolt_writer_destroy(writer);
    assert_int_equal(restore_with(&restored, &file, 0), STATUS_OK);
    assert_int_equal(restored.report.n_detached, 1);
    assert_int_equal(restored.report.n_keys, 1);
    restored_clear(&restored);
    buffer_clear(&file);
}

static void a_damaged_file_is_refused_with_a_reason(void **state) {
    struct fixture fixture;
    struct buffer file;
    struct restored restored;
    fill(&fixture);
    back_up(&fixture, &file);
    uint8_t *copy = malloc(file.size);
    memcpy(copy, file.data, file.size);
    for (size_t at = 0; at < file.size; at += 61) {
        file.data[at] ^= 0x41;
        enum status status = restore_with(&restored, &file, 0);
        assert_true(status == STATUS_OK || restored.error[0] != '\0');
        restored_clear(&restored);
        file.data[at] = copy[at];
    }
    file.size /= 2;
    assert_int_not_equal(restore_with(&restored, &file, 0), STATUS_OK);
    restored_clear(&restored);
    free(copy);
    buffer_clear(&file);
    fixture_clear(&fixture);
}

/* What etcd 3.5.30 gave for this very history. */
static void the_hash_is_etcds(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    struct key_store *keys = state_machine_keys(fixture.machine);
    assert_int_equal(hash_of(keys, 0), 1084519789);
    put(&fixture, "k", "v", 0);
    put(&fixture, "k", "w", 0);
    del(&fixture, "k", "");
    put(&fixture, "k", "x", 0);
    put(&fixture, "l", "y", 0);
    assert_int_equal(hash_of(keys, 0), 582372146);
    assert_int_equal(hash_of(keys, 2), 3658645045);
    assert_int_equal(hash_of(keys, 3), 3921404532);
    assert_int_equal(hash_of(keys, 4), 4114256623);
    assert_int_equal(hash_of(keys, 5), 1429349263);
    compact(&fixture, 3);
    assert_int_equal(hash_of(keys, 0), 2305470344);
    assert_int_equal(hash_of(keys, 4), 404288682); /* nothing is read at it */
    assert_int_equal(hash_of(keys, 5), 946913464);
    compact(&fixture, 4); /* at a tombstone */
    assert_int_equal(hash_of(keys, 0), 1690753004);
    assert_int_equal(hash_of(keys, 5), 2617231174);
    del(&fixture, "k", "");
    del(&fixture, "l", "");
    assert_int_equal(hash_of(keys, 0), 1587141319);
    assert_int_equal(hash_of(keys, 7), 928495017);
    compact(&fixture, 8);
    assert_int_equal(hash_of(keys, 0), 1084519789);
    fixture_clear(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_backup_loses_nothing),
        cmocka_unit_test(a_part_of_ours_that_etcd_has_left_behind_is_not_taken),
        cmocka_unit_test(a_backup_has_no_key_of_tokens),
        cmocka_unit_test(without_our_part_it_is_what_etcd_knows),
        cmocka_unit_test(users_at_the_end_of_the_revisions_are_refused),
        cmocka_unit_test(a_raised_revision_compacts_what_was_before),
        cmocka_unit_test(an_empty_store_comes_back),
        cmocka_unit_test(a_key_whose_lease_is_missing_stays_without_one),
        cmocka_unit_test(a_damaged_file_is_refused_with_a_reason),
        cmocka_unit_test(the_hash_is_etcds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
