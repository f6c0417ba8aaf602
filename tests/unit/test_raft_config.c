#include "core/member.h"
#include "raft/raft_config.h"

#include <raft.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct raft_config three(void) {
    struct raft_config config = {0};
    assert_true(raft_config_add(&config, 7, "10.0.0.1:2380", CONFIG_VOTER));
    assert_true(raft_config_add(&config, UINT64_MAX - 1, "b", CONFIG_STANDBY));
    assert_true(raft_config_add(&config, 3, "", CONFIG_SPARE));
    return config;
}

static struct buffer bytes_of_config(const struct raft_config *config) {
    struct buffer buffer;
    buffer_init(&buffer);
    raft_config_encode(&buffer, config);
    return buffer;
}

static enum status decode(const struct buffer *buffer, size_t size, struct raft_config *out) {
    /* A copy of this size alone, so that a sanitizer sees what is read beyond. */
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    memcpy(copy, buffer->data, size);
    enum status status = raft_config_decode(bytes_of(copy, size), out);
    free(copy);
    return status;
}

static void the_bytes_are_those_of_libraft(void **state) {
    struct raft_config config = three();
    struct raft_configuration theirs;
    raft_configuration_init(&theirs);
    for (size_t i = 0; i < config.n; i++) {
        assert_int_equal(raft_configuration_add(&theirs, config.servers[i].id,
                                                config.servers[i].address,
                                                (int)config.servers[i].role),
                         0);
    }
    struct raft_buffer encoded;
    assert_int_equal(raft_configuration_encode(&theirs, &encoded), 0);
    struct buffer buffer = bytes_of_config(&config);
    assert_int_equal(buffer.size, encoded.len);
    assert_memory_equal(buffer.data, encoded.base, encoded.len);
    raft_free(encoded.base);
    raft_configuration_close(&theirs);

    struct raft_config back;
    assert_int_equal(decode(&buffer, buffer.size, &back), STATUS_OK);
    assert_int_equal(back.n, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_true(back.servers[i].id == config.servers[i].id);
        assert_int_equal(back.servers[i].role, config.servers[i].role);
        assert_string_equal(back.servers[i].address, config.servers[i].address);
    }
    buffer_clear(&buffer);
}

static void servers_are_found_and_counted(void **state) {
    struct raft_config config = three();
    assert_string_equal(raft_config_find(&config, 7)->address, "10.0.0.1:2380");
    assert_null(raft_config_find(&config, 8));
    assert_int_equal(raft_config_count_voters(&config), 1);
    assert_true(raft_config_is_sole_voter(&config, 7));
    assert_false(raft_config_is_sole_voter(&config, 3));
    assert_false(raft_config_is_sole_voter(&config, 8));
    assert_true(raft_config_add(&config, 9, "c", CONFIG_VOTER));
    assert_false(raft_config_is_sole_voter(&config, 7));
}

static void nothing_is_added_twice_or_beyond_the_bounds(void **state) {
    struct raft_config config = three();
    char text[RAFT_CONFIG_ADDRESS_MAX + 2];
    memset(text, 'a', sizeof text);
    text[RAFT_CONFIG_ADDRESS_MAX + 1] = 0;
    assert_false(raft_config_add(&config, 7, "other", CONFIG_VOTER));
    assert_false(raft_config_add(&config, 8, "b", CONFIG_VOTER));
    assert_false(raft_config_add(&config, 0, "other", CONFIG_VOTER));
    assert_false(raft_config_add(&config, 8, text, CONFIG_VOTER));
    text[RAFT_CONFIG_ADDRESS_MAX] = 0;
    assert_true(raft_config_add(&config, 8, text, CONFIG_VOTER));
    for (uint64_t id = 100; config.n < RAFT_CONFIG_SERVERS_MAX; id++) {
        snprintf(text, sizeof text, "n%u", (unsigned)id);
        assert_true(raft_config_add(&config, id, text, CONFIG_STANDBY));
    }
    assert_false(raft_config_add(&config, 5000, "other", CONFIG_STANDBY));
    struct buffer buffer = bytes_of_config(&config);
    struct raft_config back;
    assert_int_equal(decode(&buffer, buffer.size, &back), STATUS_OK);
    assert_int_equal(back.n, RAFT_CONFIG_SERVERS_MAX);
    buffer_clear(&buffer);
}

static void every_shorter_run_of_bytes_is_malformed(void **state) {
    struct raft_config config = three();
    struct buffer buffer = bytes_of_config(&config);
    struct raft_config out = {.n = 42};
    for (size_t size = 0; size < buffer.size; size++) {
        assert_int_equal(decode(&buffer, size, &out), STATUS_MALFORMED);
    }
    buffer_put_u64(&buffer, 0);
    assert_int_equal(decode(&buffer, buffer.size, &out), STATUS_MALFORMED);
    assert_int_equal(out.n, 42); /* untouched */
    buffer_clear(&buffer);
}

static void no_changed_byte_is_read_beyond_the_end(void **state) {
    struct raft_config config = three();
    struct buffer buffer = bytes_of_config(&config);
    for (size_t i = 0; i < buffer.size; i++) {
        uint8_t old = buffer.data[i];
        for (unsigned value = 0; value < 256; value++) {
            buffer.data[i] = (uint8_t)value;
            struct raft_config out;
            if (decode(&buffer, buffer.size, &out) == STATUS_OK) {
                /* What is accepted is written the same way again. */
                struct buffer again = bytes_of_config(&out);
                assert_true(bytes_equal(bytes_of(again.data, again.size),
                                        bytes_of(buffer.data, buffer.size)));
                buffer_clear(&again);
            }
        }
        buffer.data[i] = old;
    }
    buffer_clear(&buffer);
}

static void wrong_counts_roles_and_duplicates_are_malformed(void **state) {
    struct raft_config config = {0};
    assert_true(raft_config_add(&config, 1, "aaaaaaa", CONFIG_VOTER));
    assert_true(raft_config_add(&config, 2, "aaaaaab", CONFIG_VOTER));
    struct buffer buffer = bytes_of_config(&config);
    struct raft_config out;
    struct {
        size_t at;
        uint8_t value;
    } cases[] = {
        {0, 2},               /* version */
        {1, 0},               /* no servers */
        {1, 1},               /* fewer than there are */
        {1, 3},               /* more */
        {8, 0xff},            /* many more */
        {9, 0},               /* id 0 */
        {9, 2},               /* id twice */
        {25, 3},              /* role */
        {34 + 6, 'a'},        /* address twice */
        {buffer.size - 1, 1}, /* padding */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t old = buffer.data[cases[i].at];
        assert_int_equal(decode(&buffer, buffer.size, &out), STATUS_OK);
        buffer.data[cases[i].at] = cases[i].value;
        assert_int_equal(decode(&buffer, buffer.size, &out), STATUS_MALFORMED);
        buffer.data[cases[i].at] = old;
    }
    buffer_clear(&buffer);
}

/* Others count on it: whoever keeps links to all of them, and the leader's lease. */
static void more_servers_than_a_cluster_may_have_are_malformed(void **state) {
    struct buffer buffer;
    struct raft_config out;
    for (uint64_t n = MEMBERS_MAX; n <= MEMBERS_MAX + 1; n++) {
        buffer_init(&buffer);
        buffer_put_u8(&buffer, 1);
        buffer_put_u64(&buffer, n);
        for (uint64_t id = 1; id <= n; id++) {
            buffer_put_u64(&buffer, id);
            buffer_put_u8(&buffer, (uint8_t)('a' + id));
            buffer_put_u8(&buffer, 0);
            buffer_put_u8(&buffer, CONFIG_VOTER);
        }
        while (buffer.size % 8 != 0) {
            buffer_put_u8(&buffer, 0);
        }
        assert_int_equal(decode(&buffer, buffer.size, &out),
                         n <= MEMBERS_MAX ? STATUS_OK : STATUS_MALFORMED);
        buffer_clear(&buffer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_are_those_of_libraft),
        cmocka_unit_test(servers_are_found_and_counted),
        cmocka_unit_test(nothing_is_added_twice_or_beyond_the_bounds),
        cmocka_unit_test(every_shorter_run_of_bytes_is_malformed),
        cmocka_unit_test(no_changed_byte_is_read_beyond_the_end),
        cmocka_unit_test(wrong_counts_roles_and_duplicates_are_malformed),
        cmocka_unit_test(more_servers_than_a_cluster_may_have_are_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
