#include "raft/vote_store.h"

#include "base/crc32.h"
#include "raft_files_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static char error_text[512];

static struct vote_store *open_votes(struct files_fixture *fixture, bool must_exist) {
    struct vote_store *store;
    if (vote_store_open(&fixture->files, must_exist, &store, error_text, sizeof error_text) !=
            STATUS_OK ||
        vote_store_confirm(store, error_text, sizeof error_text) != STATUS_OK) {
        fail_msg("%s", error_text);
    }
    return store;
}

static void a_new_directory_starts_with_term_zero(void **state) {
    struct vote_store *store = open_votes(*state, false);
    assert_int_equal(vote_store_term(store), 0);
    assert_int_equal(vote_store_vote(store), 0);
    vote_store_close(store);
    vote_store_close(open_votes(*state, true));
}

static void slots_must_exist_beside_other_files(void **state) {
    struct files_fixture *fixture = *state;
    struct vote_store *store;
    assert_int_equal(vote_store_open(&fixture->files, true, &store, error_text, sizeof error_text),
                     STATUS_CORRUPT);
    assert_non_null(strstr(error_text, "missing"));
    assert_non_null(strstr(error_text, "backup"));
    vote_store_close(open_votes(fixture, false)); /* nothing was created */
}

static void opening_alone_changes_nothing(void **state) {
    struct files_fixture *fixture = *state;
    struct vote_store *store;
    assert_int_equal(vote_store_open(&fixture->files, false, &store, error_text, sizeof error_text),
                     STATUS_OK);
    vote_store_close(store);
    assert_int_equal(vote_store_open(&fixture->files, true, &store, error_text, sizeof error_text),
                     STATUS_CORRUPT);
    assert_non_null(strstr(error_text, "missing"));
}

static void term_and_vote_are_there_again(void **state) {
    struct vote_store *store = open_votes(*state, false);
    for (uint64_t term = 1; term < 20; term++) {
        assert_int_equal(vote_store_write(store, term, 0), 0);
        assert_int_equal(vote_store_write(store, term, 100 + term), 0);
        assert_int_equal(vote_store_vote(store), 100 + term);
        vote_store_close(store);
        store = open_votes(*state, true);
        assert_int_equal(vote_store_term(store), term);
        assert_int_equal(vote_store_vote(store), 100 + term);
    }
    vote_store_close(store);
}

static void a_newer_version_is_refused(void **state) {
    struct files_fixture *fixture = *state;
    vote_store_close(open_votes(fixture, false));
    uint8_t bytes[64];
    size_t n;
    int file;
    const struct raft_files_calls *calls = fixture->files.calls;
    void *data = fixture->files.data;
    assert_int_equal(calls->open(data, "meta.1", RAFT_FILES_WRITE, &file), 0);
    assert_int_equal(calls->read(data, file, 0, bytes, sizeof bytes, &n), 0);
    bytes[8] = 2;
    memset(bytes + 12, 0, 4);
    uint32_t sum = crc32c(0, bytes, sizeof bytes);
    for (int i = 0; i < 4; i++) {
        bytes[12 + i] = (uint8_t)(sum >> 8 * i);
    }
    struct iovec part = {.iov_base = bytes, .iov_len = sizeof bytes};
    assert_int_equal(calls->write(data, file, 0, &part, 1), 0);
    calls->close(data, file);
    struct vote_store *store;
    assert_int_equal(vote_store_open(&fixture->files, true, &store, error_text, sizeof error_text),
                     STATUS_UNSUPPORTED);
    assert_non_null(strstr(error_text, "newer version"));
}

#define vote_test(name) cmocka_unit_test_setup_teardown(name, files_setup, files_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        vote_test(a_new_directory_starts_with_term_zero),
        vote_test(slots_must_exist_beside_other_files),
        vote_test(opening_alone_changes_nothing),
        vote_test(term_and_vote_are_there_again),
        vote_test(a_newer_version_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
