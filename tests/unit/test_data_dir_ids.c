#include "replication/data_dir_ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct data_dir_ids some_ids(size_t n) {
    struct data_dir_ids ids = {.n = n};
    for (size_t i = 0; i < n; i++) {
        ids.members[i].id = UINT64_MAX - i;
        ids.members[i].data_dir_id = i + 1;
    }
    return ids;
}

static void ids_are_found_again_as_they_were_stored(void **state) {
    char folder[] = "/tmp/births-test-XXXXXX";
    char path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/births", folder);
    struct data_dir_ids loaded = some_ids(3);
    data_dir_ids_load(path, &loaded);
    assert_int_equal(loaded.n, 0);
    for (size_t n = 0; n <= MEMBERS_MAX; n += MEMBERS_MAX / 2) {
        struct data_dir_ids stored = some_ids(n);
        assert_true(data_dir_ids_store(path, &stored));
        data_dir_ids_load(path, &loaded);
        assert_true(data_dir_ids_equal(&stored, &loaded));
    }
    assert_int_equal(data_dir_ids_find(&loaded, UINT64_MAX - 2), 3);
    assert_int_equal(data_dir_ids_find(&loaded, 5), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_false(data_dir_ids_store(path, &loaded));
}

static void every_changed_byte_is_found(void **state) {
    struct data_dir_ids ids = some_ids(2);
    struct data_dir_ids decoded;
    char text[DATA_DIR_IDS_TEXT_SIZE_MAX];
    size_t size = data_dir_ids_encode(&ids, text);
    assert_true(data_dir_ids_decode(bytes_of(text, size), &decoded));
    assert_true(data_dir_ids_equal(&ids, &decoded));
    for (size_t i = 0; i < size; i++) {
        assert_false(data_dir_ids_decode(bytes_of(text, i), &decoded));
        for (int bit = 0; bit < 8; bit++) {
            text[i] ^= (char)(1 << bit);
            assert_false(data_dir_ids_decode(bytes_of(text, size), &decoded));
            text[i] ^= (char)(1 << bit);
        }
    }
}

static void only_members_with_a_birth_are_kept(void **state) {
    struct member_table *table = member_table_create();
    struct member_facts members[2] = {{.id = 2, .data_dir_id = 7}, {.id = 1}};
    for (size_t i = 0; i < 2; i++) {
        members[i].peer_urls[members[i].n_peer_urls++] =
            bytes_from_text(i == 0 ? "http://a:1" : "http://b:1");
    }
    assert_int_equal(member_table_begin(table, 1, members, 2), STATUS_OK);
    struct data_dir_ids ids;
    data_dir_ids_of_table(table, &ids);
    assert_int_equal(ids.n, 1);
    assert_int_equal(data_dir_ids_find(&ids, 2), 7);
    member_table_destroy(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_found_again_as_they_were_stored),
        cmocka_unit_test(every_changed_byte_is_found),
        cmocka_unit_test(only_members_with_a_birth_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
