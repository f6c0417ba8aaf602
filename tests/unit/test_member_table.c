/* Who belongs to the cluster: every change goes through its encoding first, as through the log. */
#include "core/member_table.h"

#include "state_machine_fixture.h"

#include <stdlib.h>

/* --- Helpers. --- */

static struct fixture fixture;

static int set_up(void **state) {
    fixture_init(&fixture);
    return 0;
}

static int tear_down(void **state) {
    fixture_clear(&fixture);
    return 0;
}

static const struct member_table *table(void) {
    return state_machine_members(fixture.machine);
}

static struct member_facts facts_of(uint64_t id, const char *url) {
    struct member_facts facts = {.id = id};
    if (url != NULL) {
        facts.peer_urls[facts.n_peer_urls++] = bytes_from_text(url);
    }
    return facts;
}

static enum status change(enum member_action action, const struct member_facts *facts) {
    struct command command = {.type = COMMAND_MEMBER, .member = {.action = action, .facts = facts}};
    assert_int_equal(command_check(&command), STATUS_OK);
    return fixture_apply(&fixture, &command).status;
}

static enum status change_url(enum member_action action, uint64_t id, const char *url) {
    struct member_facts facts = facts_of(id, url);
    return change(action, &facts);
}

static enum status add_learner(uint64_t id, const char *url) {
    struct member_facts facts = facts_of(id, url);
    facts.role = MEMBER_LEARNER;
    return change(MEMBER_ADD, &facts);
}

static enum status begin(const struct member_facts *members, size_t n) {
    struct command command = {.type = COMMAND_MEMBERS_BEGIN,
                              .members_begin = {.token_hash = 77, .n = n, .members = members}};
    return fixture_apply(&fixture, &command).status;
}

static void begin_three(void) {
    struct member_facts members[] = {facts_of(30, "http://c:1"), facts_of(10, "http://a:1"),
                                     facts_of(20, "http://b:1")};
    assert_int_equal(begin(members, 3), STATUS_OK);
}

/* A second machine from the first one's snapshot gives the same snapshot. */
static void assert_survives_a_snapshot(void) {
    struct buffer first;
    struct buffer second;
    buffer_init(&first);
    buffer_init(&second);
    struct snapshot_view *view = snapshot_view_open(fixture.machine);
    snapshot_view_write(view, &first);
    snapshot_view_close(view);
    struct state_machine *other = state_machine_create(NULL);
    assert_int_equal(state_machine_restore(other, bytes_of(first.data, first.size)), STATUS_OK);
    view = snapshot_view_open(other);
    snapshot_view_write(view, &second);
    snapshot_view_close(view);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    state_machine_destroy(other);
    buffer_clear(&first);
    buffer_clear(&second);
}

/* --- The beginning. --- */

static void a_table_is_empty_until_it_begins(void **state) {
    assert_int_equal(member_table_count(table()), 0);
    begin_three();
    assert_int_equal(member_table_count(table()), 3);
    assert_int_equal(member_table_voters(table()), 3);
    assert_int_equal(member_table_token_hash(table()), 77);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(member_table_at(table(), i)->facts.id, 10 * (i + 1));
    }
    assert_string_equal(member_table_at(table(), 0)->peer_urls[0], "http://a:1");
    assert_null(member_table_at(table(), 0)->peer_urls[1]);
    assert_survives_a_snapshot();
}

static void it_begins_once(void **state) {
    begin_three();
    struct member_facts others[] = {facts_of(99, "http://z:1")};
    assert_int_equal(begin(others, 1), STATUS_OK);
    assert_int_equal(member_table_count(table()), 3);
    assert_null(member_table_find(table(), 99));
}

static void nobody_begins_with_two_of_one_id(void **state) {
    struct member_facts members[] = {facts_of(1, "http://a:1"), facts_of(1, "http://b:1")};
    assert_int_equal(begin(members, 2), STATUS_INVALID);
    assert_int_equal(member_table_count(table()), 0);
}

/* --- Adding and removing. --- */

static void an_added_member_has_not_started(void **state) {
    begin_three();
    uint64_t version = member_table_version(table());
    assert_int_equal(change_url(MEMBER_ADD, 15, "http://d:1"), STATUS_OK);
    assert_true(member_table_version(table()) > version);
    assert_int_equal(member_table_at(table(), 1)->facts.id, 15);
    assert_false(member_table_at(table(), 1)->facts.is_started);
    struct bytes url = bytes_from_text("http://d:1");
    assert_int_equal(member_table_by_urls(table(), &url, 1)->facts.id, 15);
    assert_survives_a_snapshot();
}

static void ids_and_urls_are_taken_once(void **state) {
    begin_three();
    uint64_t version = member_table_version(table());
    assert_int_equal(change_url(MEMBER_ADD, 10, "http://d:1"), STATUS_MEMBER_EXISTS);
    assert_int_equal(change_url(MEMBER_ADD, 40, "http://a:1"), STATUS_PEER_URL_EXISTS);
    assert_int_equal(change_url(MEMBER_UPDATE, 10, "http://b:1"), STATUS_PEER_URL_EXISTS);
    assert_int_equal(change_url(MEMBER_ADD, 40, NULL), STATUS_INVALID);
    assert_int_equal(member_table_version(table()), version);
}

static void a_removed_id_never_comes_back(void **state) {
    begin_three();
    assert_int_equal(change_url(MEMBER_REMOVE, 20, NULL), STATUS_OK);
    assert_null(member_table_find(table(), 20));
    assert_true(member_table_is_removed(table(), 20));
    assert_false(member_table_is_removed(table(), 10));
    assert_int_equal(change_url(MEMBER_ADD, 20, "http://b:1"), STATUS_MEMBER_EXISTS);
    assert_int_equal(change_url(MEMBER_REMOVE, 20, NULL), STATUS_MEMBER_NOT_FOUND);
    /* Its URLs are free again. */
    assert_int_equal(change_url(MEMBER_ADD, 21, "http://b:1"), STATUS_OK);
    assert_survives_a_snapshot();
}

static void the_last_voter_stays(void **state) {
    begin_three();
    assert_int_equal(add_learner(40, "http://d:1"), STATUS_OK);
    assert_int_equal(change_url(MEMBER_REMOVE, 10, NULL), STATUS_OK);
    assert_int_equal(change_url(MEMBER_REMOVE, 20, NULL), STATUS_OK);
    assert_int_equal(change_url(MEMBER_REMOVE, 30, NULL), STATUS_MEMBERS_NOT_ENOUGH);
    assert_int_equal(change_url(MEMBER_REMOVE, 40, NULL), STATUS_OK);
}

static void there_is_a_limit_to_members_and_to_those_remembered(void **state) {
    begin_three();
    char url[32];
    for (uint64_t id = 100; id < 100 + MEMBERS_REMOVED_MAX + 10; id++) {
        snprintf(url, sizeof url, "http://x:%u", (unsigned)id);
        assert_int_equal(change_url(MEMBER_ADD, id, url), STATUS_OK);
        assert_int_equal(change_url(MEMBER_REMOVE, id, NULL), STATUS_OK);
    }
    assert_false(member_table_is_removed(table(), 109));
    assert_true(member_table_is_removed(table(), 110));
    assert_survives_a_snapshot();
    for (uint64_t id = 5000; id < 5000 + MEMBERS_MAX - 3; id++) {
        snprintf(url, sizeof url, "http://x:%u", (unsigned)id);
        assert_int_equal(change_url(MEMBER_ADD, id, url), STATUS_OK);
    }
    assert_int_equal(change_url(MEMBER_ADD, 6000, "http://y:1"), STATUS_TOO_MANY_MEMBERS);
    assert_survives_a_snapshot();
}

/* --- Learners, updates, and what members say of themselves. --- */

static void a_learner_is_promoted_once(void **state) {
    begin_three();
    assert_int_equal(add_learner(40, "http://d:1"), STATUS_OK);
    assert_int_equal(member_table_voters(table()), 3);
    assert_int_equal(add_learner(50, "http://e:1"), STATUS_TOO_MANY_LEARNERS);
    assert_int_equal(change_url(MEMBER_PROMOTE, 10, NULL), STATUS_MEMBER_NOT_LEARNER);
    assert_int_equal(change_url(MEMBER_PROMOTE, 60, NULL), STATUS_MEMBER_NOT_FOUND);
    assert_survives_a_snapshot();
    assert_int_equal(change_url(MEMBER_PROMOTE, 40, NULL), STATUS_OK);
    assert_int_equal(member_table_voters(table()), 4);
    assert_int_equal(change_url(MEMBER_PROMOTE, 40, NULL), STATUS_MEMBER_NOT_LEARNER);
    assert_int_equal(add_learner(50, "http://e:1"), STATUS_OK);
}

static void an_update_changes_peer_urls_alone(void **state) {
    begin_three();
    struct member_facts said = {.id = 10, .name = bytes_from_text("first")};
    said.client_urls[said.n_client_urls++] = bytes_from_text("http://a:2");
    assert_int_equal(change(MEMBER_PUBLISH, &said), STATUS_OK);
    assert_int_equal(change_url(MEMBER_UPDATE, 10, "http://moved:1"), STATUS_OK);
    const struct member *member = member_table_find(table(), 10);
    assert_string_equal(member->peer_urls[0], "http://moved:1");
    assert_string_equal(member->name, "first");
    assert_string_equal(member->client_urls[0], "http://a:2");
    assert_true(member->facts.is_started);
    assert_int_equal(change_url(MEMBER_UPDATE, 99, "http://z:1"), STATUS_MEMBER_NOT_FOUND);
    assert_survives_a_snapshot();
}

static void what_a_member_says_of_itself_leaves_its_peer_urls(void **state) {
    begin_three();
    struct member_facts said = {.id = 20, .name = bytes_from_text("second")};
    said.client_urls[said.n_client_urls++] = bytes_from_text("http://b:2");
    said.client_urls[said.n_client_urls++] = bytes_from_text("http://b:3");
    assert_int_equal(change(MEMBER_PUBLISH, &said), STATUS_OK);
    const struct member *member = member_table_find(table(), 20);
    assert_string_equal(member->peer_urls[0], "http://b:1");
    assert_string_equal(member->client_urls[1], "http://b:3");
    assert_null(member->client_urls[2]);
    said.id = 99;
    assert_int_equal(change(MEMBER_PUBLISH, &said), STATUS_MEMBER_NOT_FOUND);
}

static void a_member_keeps_the_directory_it_was_born_with(void **state) {
    begin_three();
    struct member_facts said = {.id = 20, .name = bytes_from_text("second"), .data_dir_id = 7};
    assert_int_equal(change(MEMBER_PUBLISH, &said), STATUS_OK);
    assert_int_equal(member_table_find(table(), 20)->facts.data_dir_id, 7);
    assert_int_equal(change(MEMBER_PUBLISH, &said), STATUS_OK);
    said.data_dir_id = 8;
    said.name = bytes_from_text("somebody else");
    assert_int_equal(change(MEMBER_PUBLISH, &said), STATUS_MEMBER_EXISTS);
    assert_string_equal(member_table_find(table(), 20)->name, "second");
    assert_survives_a_snapshot();
}

/* --- What must not get in. --- */

static void facts_beyond_a_limit_are_refused(void **state) {
    static char text[MEMBER_URL_SIZE_MAX + 1];
    memset(text, 'x', sizeof text);
    struct member_facts facts = facts_of(1, "http://a:1");
    assert_true(member_facts_are_good(&facts));
    facts.id = 0;
    assert_false(member_facts_are_good(&facts));
    facts = facts_of(1, "http://a:1");
    facts.peer_urls[0] = bytes_of(text, sizeof text);
    assert_false(member_facts_are_good(&facts));
    facts.peer_urls[0] = bytes_of("", 0);
    assert_false(member_facts_are_good(&facts));
    facts.peer_urls[0] = bytes_of("a\0b", 3);
    assert_false(member_facts_are_good(&facts));
    facts = facts_of(1, "http://a:1");
    facts.name = bytes_of(text, MEMBER_NAME_SIZE_MAX + 1);
    assert_false(member_facts_are_good(&facts));
    struct command command = {.type = COMMAND_MEMBER,
                              .member = {.action = MEMBER_ADD, .facts = &facts}};
    assert_int_equal(command_check(&command), STATUS_INVALID);
}

/* Whatever a damaged section holds, it is taken whole or not at all, and without a crash. */
static void damage_of_an_encoded_table_is_found_or_harmless(void **state) {
    begin_three();
    assert_int_equal(change_url(MEMBER_REMOVE, 20, NULL), STATUS_OK);
    struct buffer bytes;
    buffer_init(&bytes);
    member_table_encode(table(), &bytes);
    for (size_t size = 0; size < bytes.size; size++) {
        struct member_table *copy = member_table_create();
        struct reader reader;
        uint8_t *exact = malloc(size > 0 ? size : 1);
        memcpy(exact, bytes.data, size);
        reader_init(&reader, bytes_of(exact, size));
        assert_int_equal(member_table_decode(copy, &reader), STATUS_CORRUPT);
        member_table_destroy(copy);
        free(exact);
    }
    for (size_t at = 0; at < bytes.size; at++) {
        uint8_t before = bytes.data[at];
        for (unsigned value = 0; value < 256; value++) {
            struct member_table *copy = member_table_create();
            struct reader reader;
            bytes.data[at] = (uint8_t)value;
            reader_init(&reader, bytes_of(bytes.data, bytes.size));
            (void)member_table_decode(copy, &reader);
            member_table_destroy(copy);
        }
        bytes.data[at] = before;
    }
    buffer_clear(&bytes);
}

#define TABLE_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TABLE_TEST(a_table_is_empty_until_it_begins),
        TABLE_TEST(it_begins_once),
        TABLE_TEST(nobody_begins_with_two_of_one_id),
        TABLE_TEST(an_added_member_has_not_started),
        TABLE_TEST(ids_and_urls_are_taken_once),
        TABLE_TEST(a_removed_id_never_comes_back),
        TABLE_TEST(the_last_voter_stays),
        TABLE_TEST(there_is_a_limit_to_members_and_to_those_remembered),
        TABLE_TEST(a_learner_is_promoted_once),
        TABLE_TEST(an_update_changes_peer_urls_alone),
        TABLE_TEST(what_a_member_says_of_itself_leaves_its_peer_urls),
        TABLE_TEST(a_member_keeps_the_directory_it_was_born_with),
        TABLE_TEST(facts_beyond_a_limit_are_refused),
        TABLE_TEST(damage_of_an_encoded_table_is_found_or_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
