/* Names that take long to look up: libc's own function is replaced in this test. */
#include "base/clock.h"
#include "peer_links_fixture.h"
#include "peers/peer_lookup.h"

#include <netdb.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned n_looking_up;
static bool is_answering;
static struct sockaddr_in known;
static struct sockaddr_in silent;

static int answer_with(const struct sockaddr_in *one, struct addrinfo *next,
                       struct addrinfo **out) {
    struct addrinfo *found = calloc(1, sizeof *found);
    struct sockaddr_in *address = malloc(sizeof *address);
    if (found == NULL || address == NULL) {
        abort();
    }
    *address = *one;
    *found = (struct addrinfo){.ai_family = AF_INET,
                               .ai_socktype = SOCK_STREAM,
                               .ai_addrlen = sizeof *address,
                               .ai_addr = (struct sockaddr *)address,
                               .ai_next = next};
    *out = found;
    return 0;
}

/* Hangs until the test lets it answer; figures are answered at once. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **out) {
    if (strcmp(host, "127.0.0.1") == 0) {
        return answer_with(&(struct sockaddr_in){.sin_family = AF_INET,
                                                 .sin_port = htons((uint16_t)atoi(port)),
                                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
                           NULL, out);
    }
    pthread_mutex_lock(&lock);
    /* Those of other names may begin late, in the next test. */
    bool is_known = strcmp(host, "known") == 0;
    n_looking_up += is_known;
    while (!is_answering) {
        pthread_cond_wait(&changed, &lock);
    }
    n_looking_up -= is_known;
    const struct sockaddr_in first = silent;
    const struct sockaddr_in last = known;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (strcmp(host, "silent-first") == 0) {
        struct addrinfo *second;
        answer_with(&last, NULL, &second);
        return answer_with(&first, second, out);
    }
    return is_known ? answer_with(&last, NULL, out) : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *found) {
    while (found != NULL) {
        struct addrinfo *next = found->ai_next;
        free(found->ai_addr);
        free(found);
        found = next;
    }
}

static void set_addresses(uint16_t known_port, uint16_t silent_port) {
    pthread_mutex_lock(&lock);
    known = loopback(known_port);
    silent = loopback(silent_port);
    pthread_mutex_unlock(&lock);
}

static void set_answering(bool is) {
    pthread_mutex_lock(&lock);
    is_answering = is;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static unsigned count_looking_up(void) {
    pthread_mutex_lock(&lock);
    unsigned n = n_looking_up;
    pthread_mutex_unlock(&lock);
    return n;
}

/* Threads that were abandoned end by themselves. */
static void let_all_end(void) {
    set_answering(true);
    pthread_mutex_lock(&lock);
    while (n_looking_up > 0) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static int set_up_lookup(void **state) {
    set_answering(false);
    set_up(state);
    return 0;
}

static int tear_down_lookup(void **state) {
    let_all_end();
    return tear_down(state);
}

static void a_name_may_take_longer_than_a_dial(void **state) {
    set_addresses(b.port, 0);
    peers_set_member(a.peers, B, "known:1");
    WAIT_UNTIL(count_looking_up() == 1);
    run_for(2300);
    /* No other one was begun. */
    assert_int_equal(count_looking_up(), 1);
    set_answering(true);
    WAIT_UNTIL(peers_is_linked(a.peers, B));
}

static void a_name_that_is_not_known_is_tried_again(void **state) {
    set_answering(true);
    peers_set_member(a.peers, B, "unknown:1");
    run_for(350);
    assert_false(peers_is_linked(a.peers, B));
    peers_set_member(a.peers, B, b.address);
    WAIT_UNTIL(peers_is_linked(a.peers, B));
}

/* A host with an address that swallows everything, as an address of IPv6 without a way may. */
static void each_attempt_begins_with_another_address(void **state) {
    uint16_t port;
    int listener = raw_listen(&port); /* which nobody accepts from */
    set_addresses(b.port, port);
    set_answering(true);
    peers_set_member(a.peers, B, "silent-first:1");
    WAIT_UNTIL(peers_is_linked(a.peers, B));
    close(listener);
}

/* node_close() asserts that it takes less than a second. */
static void closing_does_not_wait_for_a_name(void **state) {
    peers_set_member(a.peers, B, "known:1");
    peers_set_member(a.peers, C, "known:2");
    WAIT_UNTIL(count_looking_up() == 2);
    node_close(&a);
    assert_int_equal(count_looking_up(), 2);
}

static void closing_before_the_thread_runs_is_fine_too(void **state) {
    for (unsigned i = 0; i < 50; i++) {
        peers_set_member(a.peers, B, "other:1");
        if (i % 2 == 0) {
            uv_run(&loop, UV_RUN_NOWAIT);
        }
        if (i % 3 == 0) {
            set_answering(true);
        }
        peers_remove_member(a.peers, B);
        set_answering(false);
    }
    peers_set_member(a.peers, B, "other:1");
    node_close(&a);
}

/* The answer arrives while the loop is on its way to closing. */
static void an_answer_that_comes_late_is_dropped(void **state) {
    set_addresses(b.port, 0);
    peers_set_member(a.peers, B, "known:1");
    WAIT_UNTIL(count_looking_up() == 1);
    let_all_end();
    node_close(&a);
    assert_int_equal(a.n_opened, 0);
}

static void on_answer(void *data, struct bytes body, const char *reason) {
    const char **out_reason = data;
    *out_reason = reason;
}

static void asking_ends_in_time_whatever_a_name_does(void **state) {
    const char *reason = NULL;
    struct peer_ask_options options = {.address = "known:1", .timeout_ms = 200};
    uint64_t start_ms = clock_boottime_ms();
    (void)peer_ask_start(&loop, &options, on_answer, &reason);
    WAIT_UNTIL(reason != NULL);
    assert_string_equal(reason, "no answer in time");
    assert_true(clock_boottime_ms() - start_ms < 2000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_name_may_take_longer_than_a_dial, set_up_lookup,
                                        tear_down_lookup),
        cmocka_unit_test_setup_teardown(a_name_that_is_not_known_is_tried_again, set_up_lookup,
                                        tear_down_lookup),
        cmocka_unit_test_setup_teardown(each_attempt_begins_with_another_address, set_up_lookup,
                                        tear_down_lookup),
        cmocka_unit_test_setup_teardown(closing_does_not_wait_for_a_name, set_up_lookup,
                                        tear_down_lookup),
        cmocka_unit_test_setup_teardown(closing_before_the_thread_runs_is_fine_too, set_up_lookup,
                                        tear_down_lookup),
        cmocka_unit_test_setup_teardown(an_answer_that_comes_late_is_dropped, set_up_lookup,
                                        tear_down_lookup),
        cmocka_unit_test_setup_teardown(asking_ends_in_time_whatever_a_name_does, set_up_lookup,
                                        tear_down_lookup),
    };
    fixture_begin();
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_end();
    return n_failed;
}
