/* How raft's configuration follows the table of members. */
#include "scripted_service.h"

enum { FOURTH_ID = 4, REQUESTS_MAX = 8 };

static struct service_request requests[REQUESTS_MAX];
static size_t n_requests;

static void on_done(struct service_request *request, const struct outcome *outcome) {
    (void)request;
    assert_int_equal(outcome->status, STATUS_OK);
}

static void change(enum member_action action, uint64_t id) {
    const struct member_facts facts = {.id = id,
                                       .role = MEMBER_VOTER,
                                       .n_peer_urls = 1,
                                       .peer_urls = {bytes_from_text("http://127.0.0.1:4")}};
    const struct command command = {.type = COMMAND_MEMBER,
                                    .member = {.action = action, .facts = &facts}};
    assert_true(n_requests < REQUESTS_MAX);
    requests[n_requests].done = on_done;
    service_submit(service, &caller_server, &requests[n_requests++], &command);
}

static bool is_voter(uint64_t id) {
    const struct raft_config_server *server = members_server(service, id);
    return server != NULL && server->role == CONFIG_VOTER;
}

static bool is_without_the_third(void) {
    return members_server(service, THIRD_ID) == NULL && all_is_committed();
}

/* And it answers pings. */
static bool is_with_the_fourth(void) {
    return is_voter(FOURTH_ID) && all_is_committed() &&
           reconfigure_can_lose(service, OTHER_ID, clock_boottime_ms());
}

static bool is_alone(void) {
    return members_server(service, OTHER_ID) == NULL && members_server(service, FOURTH_ID) == NULL;
}

/* Its own log does not say that it is a voter. */
static bool is_silent(uint64_t member_id) {
    return member_id == FOURTH_ID && is_voter(FOURTH_ID);
}

/* The second member cannot go while the fourth does not know that it votes: those that are left
 * would be no majority that can elect. The fourth can go, and then the second. */
static void a_removal_that_is_refused_keeps_no_other_from_being_tried(void **state) {
    (void)state;
    script_service_open(NULL);
    script.is_silent = is_silent;
    run_until(serves);
    change(MEMBER_REMOVE, THIRD_ID);
    run_until(is_without_the_third);
    change(MEMBER_ADD, FOURTH_ID);
    run_until(is_with_the_fourth);
    change(MEMBER_REMOVE, OTHER_ID);
    change(MEMBER_REMOVE, FOURTH_ID);
    run_until(is_alone);
    script_service_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_removal_that_is_refused_keeps_no_other_from_being_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
