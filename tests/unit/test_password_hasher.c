/* Passwords on workers: hashed, verified, canceled, refused when there are too many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/password_hasher.h"

struct answer {
    int n;
    enum status status;
    char hash[512];
};

static void done(void *data, enum status status, struct bytes hash) {
    struct answer *answer = data;
    answer->n++;
    answer->status = status;
    assert_true(hash.size < sizeof answer->hash);
    memcpy(answer->hash, hash.data, hash.size);
    answer->hash[hash.size] = '\0';
}

struct fixture {
    uv_loop_t loop;
    struct password_hasher *hasher;
};

static void open_fixture(struct fixture *fixture) {
    uv_loop_init(&fixture->loop);
    fixture->hasher = password_hasher_create(&fixture->loop);
}

static void close_fixture(struct fixture *fixture) {
    password_hasher_destroy(fixture->hasher);
    uv_run(&fixture->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
}

static struct answer hash(struct fixture *fixture, const char *password) {
    struct answer answer = {0};
    assert_non_null(
        password_hasher_hash(fixture->hasher, bytes_from_text(password), done, &answer));
    assert_int_equal(answer.n, 0);
    uv_run(&fixture->loop, UV_RUN_DEFAULT);
    assert_int_equal(answer.n, 1);
    assert_int_equal(answer.status, STATUS_OK);
    return answer;
}

static enum status verify(struct fixture *fixture, const char *password, const char *hash_text) {
    struct answer answer = {0};
    assert_non_null(password_hasher_verify(fixture->hasher, bytes_from_text(password),
                                           bytes_from_text(hash_text), false, done, &answer));
    uv_run(&fixture->loop, UV_RUN_DEFAULT);
    assert_int_equal(answer.n, 1);
    return answer.status;
}

static void the_right_password_is_told_from_others(void **state) {
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture);
    struct answer answer = hash(&fixture, "secret");
    assert_memory_equal(answer.hash, "$y$", 3);
    assert_null(strstr(answer.hash, "secret"));
    assert_string_not_equal(hash(&fixture, "secret").hash, answer.hash);
    assert_int_equal(verify(&fixture, "secret", answer.hash), STATUS_OK);
    assert_int_equal(verify(&fixture, "Secret", answer.hash), STATUS_AUTH_FAILED);
    assert_int_equal(verify(&fixture, "", answer.hash), STATUS_AUTH_FAILED);
    close_fixture(&fixture);
}

static void nobody_has_a_password(void **state) {
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture);
    assert_int_equal(verify(&fixture, "secret", ""), STATUS_AUTH_FAILED);
    assert_int_equal(verify(&fixture, "", ""), STATUS_AUTH_FAILED);
    assert_int_equal(verify(&fixture, "secret", "nonsense"), STATUS_AUTH_FAILED);
    assert_int_equal(verify(&fixture, "*0", "*0"), STATUS_AUTH_FAILED);
    close_fixture(&fixture);
}

static void what_cannot_be_hashed_is_known_before(void **state) {
    (void)state;
    static char large[PASSWORD_SIZE_MAX + 1];
    memset(large, 'x', sizeof large);
    assert_true(password_is_usable(bytes_of("", 0)));
    assert_true(password_is_usable(bytes_of(large, PASSWORD_SIZE_MAX)));
    assert_false(password_is_usable(bytes_of(large, PASSWORD_SIZE_MAX + 1)));
    assert_false(password_is_usable(bytes_of("a\0b", 3)));
}

static struct password_job *guess(struct fixture *fixture, struct answer *answer) {
    return password_hasher_verify(fixture->hasher, bytes_from_text("x"), bytes_of("", 0), false,
                                  done, answer);
}

static void too_many_are_refused_and_the_rest_can_be_canceled(void **state) {
    (void)state;
    struct fixture fixture;
    struct answer answers[PASSWORD_JOBS_MAX] = {0};
    struct password_job *jobs[PASSWORD_JOBS_MAX];
    open_fixture(&fixture);
    for (int i = 0; i < PASSWORD_JOBS_MAX; i++) {
        jobs[i] = guess(&fixture, &answers[i]);
        assert_non_null(jobs[i]);
    }
    assert_null(guess(&fixture, &answers[0]));
    password_job_cancel(jobs[0]); /* runs, and has its place until it is back */
    assert_null(guess(&fixture, &answers[0]));
    password_job_cancel(jobs[PASSWORD_RUNNING_MAX]); /* waits, and is gone */
    struct answer late = {0};
    assert_non_null(guess(&fixture, &late));
    assert_null(guess(&fixture, &answers[0]));
    while (answers[1].n == 0) {
        uv_run(&fixture.loop, UV_RUN_ONCE);
    }
    assert_int_equal(answers[0].n, 0);
    assert_int_equal(answers[PASSWORD_RUNNING_MAX].n, 0);
    /* What waits goes with the hasher, and is not done any more. */
    close_fixture(&fixture);
    assert_int_equal(late.n, 0);
}

static void what_is_urgent_does_not_wait_behind_guesses(void **state) {
    (void)state;
    struct fixture fixture;
    struct answer answers[PASSWORD_JOBS_MAX] = {0};
    struct answer urgent[PASSWORD_URGENT_JOBS_MAX] = {0};
    open_fixture(&fixture);
    for (int i = 0; i < PASSWORD_JOBS_MAX; i++) {
        assert_non_null(guess(&fixture, &answers[i]));
    }
    for (int i = 0; i < PASSWORD_URGENT_JOBS_MAX; i++) {
        assert_non_null(
            password_hasher_hash(fixture.hasher, bytes_from_text("x"), done, &urgent[i]));
    }
    assert_null(password_hasher_verify(fixture.hasher, bytes_from_text("x"), bytes_of("", 0), true,
                                       done, &urgent[0]));
    while (urgent[0].n == 0) {
        uv_run(&fixture.loop, UV_RUN_ONCE);
    }
    int n_guessed = 0;
    for (int i = 0; i < PASSWORD_JOBS_MAX; i++) {
        n_guessed += answers[i].n;
    }
    assert_in_range(n_guessed, 0, 2 * PASSWORD_RUNNING_MAX);
    close_fixture(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_right_password_is_told_from_others),
        cmocka_unit_test(nobody_has_a_password),
        cmocka_unit_test(what_cannot_be_hashed_is_known_before),
        cmocka_unit_test(too_many_are_refused_and_the_rest_can_be_canceled),
        cmocka_unit_test(what_is_urgent_does_not_wait_behind_guesses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
